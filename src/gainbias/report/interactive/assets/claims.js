"use strict";

// The page of claims: the claim that is open is in the fragment of its address; its charts are drawn when it opens.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const claims = [...document.querySelectorAll(".claim")];
  const BUTTONS = [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  // The library reads some HTML in texts: names are to be shown as they are.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // Dark ink would vanish on a dark page.
  function colourOf(line) {
    if (line.reference) return style("--soft");
    if (!isDark()) return line.colour;
    const channels = [1, 3, 5].map((place) => parseInt(line.colour.slice(place, place + 2), 16));
    return `rgb(${channels.map((value) => Math.round(value + 0.35 * (255 - value))).join(",")})`;
  }

  function traceOf(line) {
    const colour = colourOf(line);
    const reach = (ends, sign) => line.y.map((value, place) => (ends[place] === null ? 0 : sign * (ends[place] - value)));
    return {
      name: plain(line.name), x: line.x, y: line.y,
      mode: line.reference ? "lines" : line.joined ? "lines+markers" : "markers",
      line: { color: colour, width: 1.4, dash: line.reference ? "dot" : line.dashes },
      marker: { color: colour, symbol: line.marker, size: 6 },
      error_y: line.low.length ? { type: "data", symmetric: false, array: reach(line.high, 1),
        arrayminus: reach(line.low, -1), thickness: 1, width: 2, color: colour } : undefined,
      hovertemplate: "%{y:.4~g} at %{x:.4~g}",
    };
  }

  function draw(element, chart) {
    const isWide = element.clientWidth > 640;
    const axis = { gridcolor: style("--line"), linecolor: style("--line"), tickcolor: style("--line"), zeroline: false,
      ticks: "outside", automargin: true, exponentformat: "power" };
    const below = 24 * Math.ceil(chart.lines.length / 2);
    const layout = {
      height: isWide ? 380 : 330 + below, margin: { l: 60, r: 8, t: 40, b: 52 },
      title: { text: plain(chart.title), x: 0, xref: "paper", xanchor: "left", font: { size: 14 } },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", dragmode: isWide ? "zoom" : false,
      font: { color: style("--ink"), family: getComputedStyle(document.body).fontFamily, size: 13 },
      hoverlabel: { bgcolor: style("--panel"), bordercolor: style("--line"), namelength: -1, font: { color: style("--ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--soft"), activecolor: style("--accent") },
      showlegend: true, legend: isWide ? {} : { orientation: "h", yref: "container", y: 0, yanchor: "bottom", font: { size: 11 } },
      xaxis: { ...axis, type: chart.xAxis, title: { text: plain(chart.x) } },
      yaxis: { ...axis, type: chart.yAxis, title: { text: plain(chart.y), standoff: 12 } },
    };
    if (!isWide) layout.margin.b += below;
    Plotly.react(element, chart.lines.map(traceOf), layout, { displaylogo: false, displayModeBar: isWide, modeBarButtons: BUTTONS });
  }

  function drawOpen() {
    for (const claim of claims.filter(({ open }) => open)) {
      claim.querySelectorAll(".chart").forEach((element, place) => draw(element, data[claim.dataset.claim][place]));
    }
  }

  function follow() {
    const wanted = new URLSearchParams(location.hash.slice(1)).get("claim");
    const claim = claims.find(({ dataset }) => dataset.claim === wanted);
    if (!claim) return;
    claim.open = true;
    claim.scrollIntoView({ block: "start" });
  }

  for (const claim of claims) {
    claim.addEventListener("toggle", () => {
      if (claim.open) history.replaceState(null, "", `#${new URLSearchParams({ claim: claim.dataset.claim })}`);
      drawOpen();
    });
  }
  addEventListener("hashchange", follow);
  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(drawOpen, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOpen);
  follow();
})();
