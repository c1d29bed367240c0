"use strict";

// The page of a series, or of several: the group that was opened last is in the fragment of its address.
(() => {
  const { band, drawInText: draw, findAll, isWide, readable, scale, style } = Common;
  const data = Common.data();

  const straight = (x, y, color, width, dash) =>
    ({ x, y, mode: "lines", line: { color, width, dash }, hoverinfo: "skip" });
  const shaded = (x0, x1, xref = "x") => ({ type: "rect", xref, yref: "paper", x0, x1, y0: 0, y1: 1, layer: "below",
    fillcolor: style("--shade"), line: { width: 0 } });
  const note = (text, x, xanchor) => ({ text, x, xanchor, yref: "paper", y: 1, yanchor: "bottom", showarrow: false,
    font: { color: style("--soft"), size: 12 } });

  function drawMeans(element, { steps, lines, warmUp, end, mean, interval, segments, shiftAt, name, colours }) {
    const inkOf = (chain) => readable(colours[chain % colours.length]);
    const hover = (chain) => `${lines.length > 1 ? `chain ${chain}: ` : ""}%{y}<br>about step %{x:,d}<extra></extra>`;
    const traces = lines.map((y, chain) => ({ x: steps, y, mode: steps.length > 1 ? "lines" : "markers",
      line: { color: inkOf(chain), width: 1.2 }, marker: { color: inkOf(chain) }, opacity: 0.8,
      hovertemplate: hover(chain) }));
    const ink = style("--ink"), found = readable(data.found), after = [warmUp, end];
    if (interval) traces.push(band(after, Array(2).fill(interval[0]), Array(2).fill(interval[1]), ink));
    if (mean !== null) traces.push(straight(after, [mean, mean], ink, 1.5));
    for (const part of segments) {
      traces.push(straight(part.steps, part.levels, part.chain === null ? found : inkOf(part.chain), 3));
    }
    const cut = warmUp ? [shaded(0, warmUp)] : [];
    const shift = shiftAt === null ? [] : [{ type: "line", yref: "paper", x0: shiftAt, x1: shiftAt, y0: 0, y1: 1,
      line: { color: found, width: 1.5 } }];
    draw(element, traces, {
      shapes: [...cut, ...shift], margin: { l: 64, r: 8, t: 34, b: 52 },
      annotations: [...(warmUp ? [note("left out", 0, "left")] : []),
        ...(shift.length ? [note("level shift", shiftAt, "center")] : [])],
      xaxis: { ...scale("Step"), showgrid: false, range: [0, end] }, yaxis: scale(name),
    });
  }

  const LOGARITHMIC = { type: "log", exponentformat: "power", dtick: 1 };

  function drawReason(element, { form, across, up, smooth, used, least, titles, colour }) {
    const ink = readable(colour), soft = style("--soft"), isPeriod = form === "period";
    const points = { x: across, y: up, mode: isPeriod ? "lines+markers" : "markers",
      line: { color: ink, width: 1.5 }, marker: { color: isPeriod ? ink : soft, size: isPeriod ? 6 : 4 },
      hovertemplate: "%{y:.4~g} at %{x:.4~g}<extra></extra>" };
    const kind = isPeriod ? {} : LOGARITHMIC;
    const line = { waves: straight(...smooth, ink, 2.5), tail: straight(...smooth, style("--ink"), 1.2, "dash") }[form];
    const most = Math.max(...up) * 2;
    draw(element, line ? [points, line] : [points], {
      shapes: form === "waves" ? [shaded(across[0], used), { type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1,
        line: { color: style("--ink"), width: 1.2, dash: "dash" } }] : [],
      xaxis: { ...scale(titles[0]), showgrid: false, ...kind },
      yaxis: { ...scale(isWide(element) ? titles[1] : ""), ...kind,
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
