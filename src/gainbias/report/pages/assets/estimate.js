"use strict";

// The page of one evaluation: what its map shows and how its table is sorted is in the fragment of its address.
(() => {
  const { drawInText: draw, errorBars, find, findAll, heightOf, isWide, readable, scale, style } = Common;
  const data = Common.data();
  const SHOWN = { value: "Relative value", width: "Half-width" };
  const BAR = 26; // pixels, for each of the extremes

  const zero = () => ({ zeroline: true, zerolinecolor: style("--soft"), zerolinewidth: 1 });

  // A band for each stretch with intervals; that of a single point is a stroke.
  function bands(x, low, high, ink) {
    const starts = low.map((end, place) => end !== null && (low[place - 1] ?? null) === null);
    return starts.flatMap((isStart, start) => {
      if (!isStart) return [];
      const length = [...low.slice(start), null].indexOf(null);
      const [across, bottom, top] = [x, low, high].map((list) => list.slice(start, start + length));
      const one = Common.band(across, bottom, top, ink);
      return [{ ...one, line: { width: length > 1 ? 0 : 3, color: one.fillcolor } }];
    });
  }

  // A logarithmic axis of few decades: 1, 2 and 5 times powers of ten, from the end on as many as there is room for.
  function alongLengths(element, first, last) {
    const range = [first, last].map(Math.log10), apart = (range[1] - range[0]) * (isWide(element) ? 0.1 : 0.36);
    const powers = Array.from({ length: 16 }, (_, power) => 10 ** power);
    const round = powers.flatMap((power) => [1, 2, 5].map((digit) => digit * power))
      .filter((number) => number >= first && number <= last);
    const tickvals = (round.length ? round : [last]).reduceRight((kept, number) =>
      (!kept.length || Math.log10(kept[0] / number) >= apart ? [number, ...kept] : kept), []);
    return { type: "log", range, tickvals, tickformat: ",d" };
  }

  function drawGain(element) {
    const { x, y, low, high, texts, last, range, per, colour, said, ends } = data.gain;
    const ink = readable(colour), alone = x.length === 1; // of one point neither line nor band can be seen
    const line = {
      x, y, mode: alone ? "markers" : "lines", line: { color: ink, width: 2 }, marker: { color: ink, size: 8 },
      error_y: alone ? errorBars(y, low, high, { color: ink }) : undefined,
      text: texts, hovertemplate: "%{text}<br>after %{x:,d} transitions<extra></extra>",
    };
    const label = { xref: "paper", x: 1, xanchor: "left", xshift: 5, showarrow: false, font: { color: ink, size: 13 } };
    const top = high.at(-1);
    draw(element, [...bands(x, low, high, ink), line], {
      margin: { ...Common.margins(isWide(element) ? 30 : 10), r: isWide(element) ? 92 : 12 + 8 * said.length },
      annotations: alone ? [] : [{ ...label, y: last, text: `<b>${said}</b>` },
        ...(top === null || !isWide(element) ? [] : [{ ...label, y: top, text: ends, yshift: 4 }])],
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: last, y1: last, layer: "below",
        line: { color: style("--soft"), width: 1, dash: "dot" } }],
      xaxis: { ...scale("Transitions"), showgrid: false,
        ...(alone ? { tickvals: x, tickformat: ",d" } : alongLengths(element, x[0], x.at(-1))) },
      yaxis: { ...scale(`Gain per ${per}`), range: range ?? undefined },
    });
  }

  function drawPoints(element, { axes: [x], values, low, high, texts, colours }) {
    const ink = readable(colours[1]);
    const trace = {
      x, y: values, mode: "markers", text: texts, error_y: errorBars(values, low, high, { color: ink }),
      marker: { size: 7, color: low.map((end) => (end === null ? style("--soft") : ink)) },
      hovertemplate: "%{x}: %{text}<extra></extra>",
    };
    const whole = x.length > 12 ? {} : { dtick: 1 };
    draw(element, [trace], { xaxis: { ...scale("Observation"), showgrid: false, ...whole },
      yaxis: { ...scale(SHOWN.value), ...zero() } });
  }

  function drawLine(element, { axes: [x], values, low, high, texts, colours }) {
    const ink = readable(colours[1]);
    const hasGaps = values.includes(null); // a point between two of them is no line
    const trace = { x, y: values, mode: hasGaps ? "lines+markers" : "lines", text: texts,
      line: { color: ink, width: 2 }, marker: { color: ink, size: 4 },
      hovertemplate: "%{x:.4~g}: %{text}<extra></extra>" };
    draw(element, [...bands(x, low, high, ink), trace], {
      xaxis: { ...scale("Observation"), showgrid: false }, yaxis: { ...scale(SHOWN.value), ...zero() } });
  }

  function drawMap(element, { axes: [x, y], whole, values, low, high, texts, colours }, state) {
    const isValue = state.shown === "value";
    const numbers = values.map((value, place) =>
      (low[place] === null ? null : isValue ? value : (high[place] - low[place]) / 2));
    const known = numbers.filter((number) => number !== null).map(Math.abs);
    const most = Math.max(...known) || 1;
    const rows = (list) => y.map((_, up) => x.map((_, across) => list[across * y.length + up]));
    const diverging = { colorscale: [[0, readable(colours[0])], [0.5, style("--panel")], [1, readable(colours[1])]], zmin: -most, zmax: most };
    const gap = whole && x.length * y.length < 2000 ? 1 : 0;
    const bar = isWide(element) ? { thickness: 12 }
      : { thickness: 12, orientation: "h", y: -0.2, yanchor: "top", lenmode: "fraction", len: 1 };
    draw(element, [{
      type: "heatmap", x, y, z: rows(numbers), text: rows(texts), hoverongaps: false, xgap: gap, ygap: gap,
      ...(isValue ? diverging : { colorscale: "Cividis", zmin: 0, zmax: most }),
      colorbar: { ...bar, outlinewidth: 0, title: { text: SHOWN[state.shown], side: isWide(element) ? "right" : "top" } },
      hovertemplate: "%{x:.4~g}, %{y:.4~g}: %{text}<extra></extra>",
    }], {
      height: heightOf(element) + (isWide(element) ? 40 : 140),
      xaxis: { ...scale("First number"), showgrid: false }, yaxis: { ...scale("Second number"), showgrid: false },
    });
  }

  function drawExtremes(element, { names, values, low, high, texts, colours }) {
    const trace = {
      type: "bar", orientation: "h", x: values, y: names.map((_, place) => place), text: texts, textposition: "none",
      marker: { color: values.map((value) => readable(colours[value > 0 ? 1 : 0])) },
      error_x: errorBars(values, low, high, { color: style("--ink") }), customdata: names.map(Common.plain),
      hovertemplate: "%{customdata}: %{text}<extra></extra>",
    };
    draw(element, [trace], {
      height: 80 + BAR * names.length, bargap: 0.25, xaxis: { ...scale(SHOWN.value), ...zero() },
      yaxis: { ...scale("Observation"), showgrid: false, tickvals: trace.y, ticktext: trace.customdata },
    });
  }

  const FORMS = { points: drawPoints, line: drawLine, map: drawMap, extremes: drawExtremes };

  const settled = ({ shown, sort }) => ({ shown: shown in SHOWN ? shown : "value", sort: parseInt(sort, 10) || 0 });

  const said = ({ shown, sort }) =>
    ({ shown: find('[data-choice="shown"]') ? shown : undefined, sort: sort || undefined });

  function show(state) {
    for (const select of findAll("[data-choice]")) select.value = state[select.dataset.choice];
    for (const table of findAll("table.sortable")) if (state.sort) Common.sortTable(table, state.sort);
    drawGain(find("#gain"));
    const element = find("#values");
    if (element) FORMS[data.values.form](element, data.values, state);
  }

  const { change, start } = Common.keepState(settled, show, said);
  Common.fillTitles((table, sort) => change({ sort }));
  Common.listen(change);
  for (const form of findAll("form")) form.hidden = false;
  start();
})();
