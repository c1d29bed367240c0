"use strict";

// Learning curves: what is drawn is a function of the data and the state of the page.
const Chart = (() => {
  const EVERY_TASK = "every-task";
  const MOST_BANDS = 3; // more of them overlap: then only that of the line under the mouse is drawn
  const PRINTED_ZERO = 0.005; // the paper rounds to two decimals: 0.00 means less than this
  const DECADES = 3; // number of last decades that are shown: before them next to nothing is learned
  const MARK_WIDTH = 0.12; // of a decade, for each of the paper's end points
  const TARGETS = { bias: "the bias", paper: "the paper's fixed point", own: "the method's own limit" };
  const KINDS = { paper: "", full: ", full", centred: ", centred", quotient: ", up to a constant" };

  const { axis, isWide, plain, readable, style } = Common;
  const digits = (number, count = 4) => Common.digits(Number.isFinite(number) ? Number(number.toPrecision(count)) : number, "diverged");

  const asPrinted = ([mean, spread]) => `${mean.toFixed(2)} ± ${spread.toFixed(2)}`;

  const colourOf = (algorithm) => readable(algorithm.colour);

  // The curve of an algorithm under the state's metric, or undefined if it is not stored.
  function curveOf(data, state, task, name) {
    const stored = data.curves[state.protocol]?.[task]?.[name];
    const kind = state.kind === "paper" ? data.algorithms[name].paperKind : state.kind;
    const errors = stored?.errors[`${kind}|${state.target}|${state.norm}`];
    return errors && { ...errors, x: stored[state.axis], runs: stored.runs };
  }

  function shownCurves(data, state, task) {
    const shown = Object.keys(data.algorithms).filter((name) => !state.hide.includes(name));
    const found = shown.map((name) => [name, curveOf(data, state, task, name)]);
    return new Map(found.filter(([, curve]) => curve));
  }

  // The paper's end points belong to its own metric.
  const printedOf = (data, state, task) => (state.kind === "paper" && data.printed[task]) || {};

  function lineOf(data, name, curve, axes) {
    const algorithm = data.algorithms[name];
    return {
      ...axes,
      name: plain(algorithm.title),
      mode: "lines",
      x: curve.x,
      y: curve.mean,
      customdata: curve.mean.map((mean, place) =>
        [mean, curve.low[place], curve.high[place]].map((number) => digits(number))),
      line: { color: colourOf(algorithm), dash: algorithm.dashes, width: algorithm.width },
      hovertemplate: "%{customdata[0]} (%{customdata[1]} to %{customdata[2]})",
    };
  }

  function endPointsOf(data, state, printed, names, end, axes) {
    return names.map((name, place) => {
      const [mean] = printed[name];
      const algorithm = data.algorithms[name];
      return {
        ...axes,
        name: `${plain(algorithm.title)}, paper`,
        mode: "markers",
        x: [end * 10 ** (MARK_WIDTH * (place + 0.7))],
        y: [Math.max(mean, PRINTED_ZERO)],
        marker: {
          color: colourOf(algorithm),
          symbol: mean > 0 ? algorithm.marker : "arrow-down",
          size: 9,
          line: { color: style("--ink"), width: 1 },
        },
        hovertemplate: asPrinted(printed[name]),
      };
    });
  }

  // Heights by what is compared: least squares on a handful of transitions may be far above.
  function heights(data, curves, printed, start) {
    const values = Object.values(printed).map(([mean]) => Math.max(mean, PRINTED_ZERO));
    for (const [name, curve] of curves) {
      const from = curve.x.findIndex((x) => x >= start);
      if (data.algorithms[name].isFloor) values.push(curve.mean.at(-1));
      else values.push(...curve.mean.slice(from), ...curve.low.slice(from));
    }
    const positive = values.filter((value) => value > 0);
    return positive.length ? Common.logRange(Math.min(...positive), Math.max(...positive)) : [-1, 1];
  }

  function panel(data, state, task, number, layout, corner, size) {
    const suffix = number ? String(number + 1) : "";
    const axes = { xaxis: `x${suffix}`, yaxis: `y${suffix}` };
    const curves = shownCurves(data, state, task);
    const printed = printedOf(data, state, task);
    const names = Object.keys(printed).filter((name) => data.algorithms[name] && !state.hide.includes(name));
    const end = Math.max(1, ...[...curves.values()].map((curve) => curve.x.at(-1)));
    const strip = names.length ? MARK_WIDTH * (names.length + 0.4) : 0;
    const last = Math.log10(end);
    const shared = { ...axis(), type: "log", tickfont: { size: 12 } };
    layout[`xaxis${suffix}`] = { ...shared, anchor: `y${suffix}`, domain: [corner.x, corner.x + size.x],
      range: [last - DECADES, last + strip], hoverformat: ",d", unifiedhovertitle: { text: `%{x:,d} ${state.axis}` }, dtick: 1, ...(end < 1e6 ? { tickformat: ",d" } : { exponentformat: "power" }), tickangle: 0, showgrid: false };
    const range = heights(data, curves, Object.fromEntries(names.map((name) => [name, printed[name]])), end / 10 ** DECADES);
    layout[`yaxis${suffix}`] = { ...shared, ...Common.logarithmic(...range.map((power) => 10 ** power)), anchor: `x${suffix}`,
      domain: [corner.y, corner.y + size.y], range };
    if (names.length) {
      layout.shapes.push({ type: "rect", xref: `x${suffix}`, yref: `y${suffix} domain`, x0: end,
        x1: 10 ** (last + strip), y0: 0, y1: 1, line: { width: 0 }, layer: "below",
        fillcolor: style("--panel") });
      layout.annotations.push({ text: "paper", xref: `x${suffix}`, yref: `y${suffix} domain`, x: last + strip / 2,
        y: 0, yanchor: "bottom", showarrow: false, font: { size: 11, color: style("--soft") } });
    }
    const bottom = 10 ** layout[`yaxis${suffix}`].range[0];
    const bandOf = ([name, { x, low, high }]) =>
      ({ ...axes, ...Common.downTo(bottom, Common.band(x, low, high, colourOf(data.algorithms[name]))) });
    const banded = [...curves].filter(([name]) => !data.algorithms[name].isFloor);
    const bands = banded.map((curve) => ({ ...bandOf(curve), visible: banded.length <= MOST_BANDS, meta: plain(data.algorithms[curve[0]].title) }));
    const lines = [...curves].map(([name, curve]) => lineOf(data, name, curve, axes));
    return [...bands, ...lines, ...endPointsOf(data, state, printed, names, end, axes)];
  }

  // Show the band of one algorithm among many, or none.
  function showBand(element, title) {
    const bands = element.data.map((trace, place) => [trace, place]).filter(([{ meta }]) => meta);
    if (bands.length <= MOST_BANDS) return;
    Plotly.restyle(element, { visible: bands.map(([{ meta }]) => meta === title) }, bands.map(([, place]) => place));
  }

  const yTitle = (state) => `Distance to ${TARGETS[state.target]}${KINDS[state.kind]}`;

  function draw(element, data, state) {
    const alone = state.task !== EVERY_TASK;
    const tasks = alone ? [state.task] : Object.keys(data.tasks);
    const width = element.clientWidth;
    // All methods in one box only where their checkpoints agree: a box must not mix different numbers of transitions.
    const together = alone && isWide(element) && state.axis === "steps";
    const columns = alone ? 1 : width > 1000 ? 4 : isWide(element) ? 3 : width > 420 ? 2 : 1;
    const rows = Math.ceil(tasks.length / columns);
    const height = alone ? Math.min(520, Math.max(320, 0.55 * width)) : 60 + 210 * rows;
    const gap = { x: columns > 1 ? 58 / width : 0, y: rows > 1 ? 58 / height : 0 };
    const size = { x: (1 - gap.x * (columns - 1)) / columns, y: (1 - gap.y * (rows - 1)) / rows };
    const layout = {
      height, shapes: [], annotations: [],
      margin: Common.margins(alone ? 10 : 28),
      hovermode: together ? "x unified" : "closest",
    };
    const traces = tasks.flatMap((task, number) => {
      const corner = { x: (number % columns) * (size.x + gap.x),
        y: 1 - size.y - Math.floor(number / columns) * (size.y + gap.y) };
      if (!alone) {
        layout.annotations.push({ text: plain(data.tasks[task]), x: corner.x, y: corner.y + size.y,
          xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false });
      }
      return panel(data, state, task, number, layout, corner, size);
    });
    if (!together) {
      for (const trace of traces.filter(({ customdata }) => customdata)) {
        trace.hovertemplate = `%{x:,d} ${state.axis}<br>${trace.hovertemplate}`;
      }
    }
    if (alone) {
      layout.xaxis.title = { text: state.axis === "steps" ? "Steps" : "Transitions" };
      layout.yaxis.title = { text: isWide(element) ? yTitle(state) : "Distance", standoff: 12 };
      layout.yaxis.automargin = true;
    }
    return Common.draw(element, traces, layout, alone && isWide(element));
  }

  return { EVERY_TASK, MOST_BANDS, asPrinted, colourOf, curveOf, digits, draw, printedOf, showBand, shownCurves, yTitle };
})();
