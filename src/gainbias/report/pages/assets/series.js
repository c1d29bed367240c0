"use strict";

// The page of a series, or of several: the group that was opened last is in the fragment of its address.
(() => {
  const { band, drawInText: draw, findAll, isWide, readable, scale, seeThrough, style } = Common;
  const data = Common.data();
  const BAND = 0.3; // share of ink, so that the interval shows through the series, also on a dark page

  const straight = (x, y, color, width, dash) =>
    ({ x, y, mode: "lines", line: { color, width, dash }, hoverinfo: "skip" });
  const shaded = (x0, x1, fillcolor) => ({ type: "rect", yref: "paper", x0, x1, y0: 0, y1: 1, layer: "below",
    fillcolor, line: { width: 0 } });
  const note = (text, x, xanchor) => ({ text, x, xanchor, yref: "paper", y: 1, yanchor: "bottom", showarrow: false,
    font: { color: style("--soft"), size: 12 } });

  function drawMeans(element, { steps, lines, warmUp, end, mean, interval, segments, shiftAt, name, counts, colours }) {
    const inkOf = (chain) => readable(colours[chain % colours.length]);
    const hover = (chain) => `${lines.length > 1 ? `chain ${chain}: ` : ""}%{y}<br>about ${counts} %{x:,d}<extra></extra>`;
    const traces = lines.map((y, chain) => ({ x: steps, y, mode: steps.length > 1 ? "lines" : "markers",
      line: { color: inkOf(chain), width: 1 }, marker: { color: inkOf(chain) }, opacity: 0.7,
      hovertemplate: hover(chain) }));
    const ink = style("--ink"), found = readable(data.found), after = [warmUp, end];
    if (interval) {
      const around = band(after, Array(2).fill(interval[0]), Array(2).fill(interval[1]), ink);
      traces.push({ ...around, fillcolor: seeThrough(ink, BAND) });
    }
    if (mean !== null) traces.push(straight(after, [mean, mean], ink, 2));
    for (const part of segments) {
      traces.push(straight(part.steps, part.levels, part.chain === null ? found : inkOf(part.chain), 3));
    }
    const cut = warmUp ? [shaded(0, warmUp, style("--shade"))] : [];
    const shift = shiftAt === null ? [] : [{ type: "line", yref: "paper", x0: shiftAt, x1: shiftAt, y0: 0, y1: 1,
      line: { color: found, width: 1.5 } }];
    draw(element, traces, {
      shapes: [...cut, ...shift], margin: Common.margins(30),
      annotations: [...(warmUp ? [note("left out", 0, "left")] : []),
        ...(shift.length ? [note("level shift", shiftAt, "center")] : [])],
      xaxis: { ...scale(counts[0].toUpperCase() + counts.slice(1)), showgrid: false, range: [0, end], tickformat: ",d" },
      yaxis: scale(name),
    });
  }

  function drawReason(element, { form, across, up, smooth, used, least, titles, colour }) {
    const ink = readable(colour), soft = style("--soft"), isPeriod = form === "period";
    const points = { x: across, y: up, mode: isPeriod ? "lines+markers" : "markers",
      line: { color: ink, width: 1.5 }, marker: { color: isPeriod ? ink : soft, size: isPeriod ? 6 : 4 },
      hovertemplate: "%{y:.4~g} at %{x:.4~g}<extra></extra>" };
    const kind = (numbers) => (isPeriod ? {} : Common.logarithmic(Math.min(...numbers), Math.max(...numbers)));
    const line = { waves: straight(...smooth, ink, 2.5), tail: straight(...smooth, style("--ink"), 1.2, "dash") }[form];
    const most = Math.max(...up) * 2;
    const isWaves = form === "waves";
    draw(element, line ? [points, line] : [points], {
      margin: Common.margins(30), annotations: isWaves ? [note("the interval comes from these", 0, "left")] : [],
      shapes: isWaves ? [shaded(across[0], used, seeThrough(ink, 0.12)), { type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1,
        line: { color: style("--ink"), width: 1.2, dash: "dash" } }] : [],
      xaxis: { ...scale(titles[0]), showgrid: false, ...kind(across) },
      yaxis: { ...scale(isWide(element) ? titles[1] : ""), ...kind(least === null ? up : [least, most]),
        range: least === null ? undefined : [Math.log10(least), Math.log10(Math.max(most, 2))] },
    });
  }

  function drawOpen() {
    for (const element of findAll(".chart")) {
      if (element.closest("details:not([open])")) continue;
      const { means, reason } = data.series[Number(element.dataset.series)];
      if (element.dataset.shows === "means") drawMeans(element, means);
      else drawReason(element, reason);
    }
  }

  Common.fillTitles(Common.sortTable);
  Common.listen(() => {});
  Common.unfold("group", drawOpen);
})();
