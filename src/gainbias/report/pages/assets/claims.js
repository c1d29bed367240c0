"use strict";

// The page of claims: the claim that is open is in the fragment of its address; its charts are drawn when it opens.
(() => {
  const { axis, draw, errorBars, isWide, readable, style } = Common;
  const data = Common.data();
  const claims = Common.findAll(".claim");

  // Names and titles are escaped already, and have their mathematics in them.
  // Predictions have one colour; what tells them apart is how their lines are broken.
  const BREAKS = ["dash", "dot", "dashdot"];

  function traceOf(line, _, lines) {
    const place = lines.filter(({ reference }) => reference).indexOf(line);
    const colour = line.reference ? style("--soft") : readable(line.colour);
    return {
      name: line.name, x: line.x, y: line.y,
      mode: line.reference ? "lines" : line.joined ? "lines+markers" : "markers",
      line: { color: colour, width: 1.4, dash: line.reference ? BREAKS[place % BREAKS.length] : line.dashes },
      marker: { color: colour, symbol: line.marker, size: 6 },
      error_y: line.low.length ? errorBars(line.y, line.low, line.high, { width: 2, color: colour }) : undefined,
      hovertemplate: "%{y:.4~g} at %{x:.4~g}",
    };
  }

  function drawChart(element, chart) {
    const below = isWide(element) ? 0 : 24 * Math.ceil(chart.lines.length / 2);
    const common = { ...axis(), automargin: true };
    const scaleOf = (kind, name) => {
      const values = chart.lines.flatMap((line) => line[name]).filter((value) => value > 0);
      return kind === "log" ? Common.logarithmic(Math.min(...values), Math.max(...values)) : { type: kind };
    };
    draw(element, chart.lines.map(traceOf), {
      height: isWide(element) ? 380 : 330 + below, margin: Common.margins(40, 52 + below),
      title: { text: chart.title, x: 0, xref: "paper", xanchor: "left", font: { size: 14 } }, showlegend: true,
      legend: isWide(element) ? {} : { orientation: "h", yref: "container", y: 0, yanchor: "bottom", font: { size: 11 } },
      xaxis: { ...common, ...scaleOf(chart.xAxis, "x"), title: { text: chart.x } },
      yaxis: { ...common, ...scaleOf(chart.yAxis, "y"), title: { text: chart.y, standoff: 12 } },
    });
  }

  function drawOpen() {
    for (const claim of claims.filter(({ open }) => open)) {
      claim.querySelectorAll(".chart").forEach((element, place) => drawChart(element, data[claim.dataset.claim][place]));
    }
  }

  Common.unfold("claim", drawOpen);
})();
