"use strict";

// The page of a sweep: its state is in the fragment of its address, and all that is shown follows from the state.
(() => {
  const { axis, band, errorBars, find, findAll, plain, readable, style } = Common;
  const data = Common.data();
  const VIEWS = ["best", "steps", "curves", "study"];
  const BEST = "best";
  const MOST_RATIO = 1000; // of the largest error shown at first to the smallest
  const HINTS = {
    steps: "Mean error at the last step over all instances, with 95% intervals. Step sizes with which an instance diverged are left out.",
    best: "Each series at its best step size, chosen on every second instance and measured on the others.",
    together: "Each series at its best step size, chosen and measured on the same instances, because there are few: these errors tend to be too small.",
    curves: "Means over all instances, with bands of 95% intervals of the mean.",
  };

  // State ---------------------------------------------------------------------------------------------

  const choices = {
    view: VIEWS,
    task: data.tasks,
    metric: data.metrics,
    step: [BEST, ...data.shared],
    axis: ["steps", "transitions"],
  };

  // Whatever an address asks for, the state is one that can be shown.
  function settled(wanted) {
    const state = { hide: [], ...wanted };
    for (const [name, allowed] of Object.entries(choices)) {
      if (!allowed.includes(state[name])) state[name] = allowed[0];
    }
    state.hide = state.hide.filter((name) => name in data.series);
    return state;
  }

  let state;

  // Charts --------------------------------------------------------------------------------------------

  const colourOf = (name) => readable(data.series[name].colour);
  const stored = () => Object.entries(data.points[state.task]?.[state.metric] ?? {});
  const shown = () => stored().filter(([name]) => !state.hide.includes(name));
  const lineOf = (name) => ({ color: colourOf(name), dash: data.series[name].dashes, width: 2 });

  function sensitivity() {
    const ends = shown().flatMap(([, points]) => points.a).filter((a) => a !== null);
    const span = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0.1, 1];
    return shown().map(([name, { a, mean, low, high, schedules }]) => {
      const free = a[0] === null; // an algorithm without step sizes is a line across
      const x = free ? span : a;
      const y = free ? [mean[0], mean[0]] : mean;
      return {
        name: plain(name), x, y, mode: free ? "lines" : "lines+markers", connectgaps: false, line: lineOf(name),
        error_y: free ? undefined : errorBars(mean, low, high),
        customdata: x.map((_, place) => (free ? "no step size" : plain(schedules[place]))),
        hovertemplate: "%{customdata}: %{y:.4~g}",
      };
    });
  }

  function bests() {
    const found = shown().map(([name, { best }]) => [name, best]).filter(([, best]) => best.mean !== null);
    found.sort(([, one], [, other]) => other.mean - one.mean);
    return found.map(([name, best], place) => ({
      name: plain(name), x: [best.mean], y: [place], mode: "markers",
      marker: { color: colourOf(name), size: 9 },
      error_x: errorBars([best.mean], [best.low], [best.high]),
      customdata: [plain(best.schedule)],
      hovertemplate: "%{x:.4~g} at %{customdata}",
    }));
  }

  function curves() {
    return shown().flatMap(([name, { best, curves: kept }]) => {
      const schedule = state.step === BEST ? best.schedule : state.step;
      const curve = kept[schedule];
      if (!curve) return [];
      const x = curve[state.axis];
      const shared = { x, mode: "lines", customdata: x.map(() => plain(schedule)),
        hovertemplate: `%{y:.4~g} after %{x:,d} ${state.axis} (%{customdata})` };
      const mean = { ...shared, name: plain(name), y: curve.mean, line: lineOf(name) };
      const exact = { ...shared, name: `${plain(name)}, exact`, y: curve.exact, line: { color: style("--ink"), width: 1, dash: "6px,3px" } };
      return [band(x, curve.low, curve.high, colourOf(name)), mean, ...(curve.exact ? [exact] : [])];
    });
  }

  // Step sizes that are far too large would squeeze all others together.
  function heights(traces) {
    const values = traces.flatMap(({ y }) => y).filter((value) => value > 0);
    if (!values.length) return [-1, 1];
    const least = Math.min(...values), most = Math.min(Math.max(...values), MOST_RATIO * least);
    return Common.logRange(least, most);
  }

  function draw() {
    const element = find("#chart");
    const titles = { steps: "Step size <i>a</i>", best: "Error at the last step", curves: state.axis === "steps" ? "Steps" : "Transitions" };
    const raw = { steps: sensitivity, best: bests, curves }[state.view]();
    const range = heights(raw);
    const traces = raw.map((trace) => (trace.fill ? Common.downTo(10 ** range[0], trace) : trace));
    const across = traces.flatMap(({ x }) => x).filter((value) => value > 0);
    const logarithmic = (least, most) => ({ ...axis(), ...Common.logarithmic(least, most), automargin: true });
    const layout = {
      height: Math.min(520, Math.max(320, 0.5 * element.clientWidth)),
      xaxis: { ...logarithmic(Math.min(...across), Math.max(...across)), title: { text: titles[state.view] } },
      yaxis: { ...logarithmic(...range.map((power) => 10 ** power)), range, title: { text: Common.isWide(element) && !Common.isPrinting() ? plain(state.metric) : "Error", standoff: 12 } },
    };
    if (state.view === "best") {
      layout.height = 120 + 36 * traces.length; // a row for each
      layout.yaxis = { automargin: true, tickvals: traces.map((_, place) => place), ticktext: traces.map(({ name }) => name),
        range: [-0.6, traces.length - 0.4], showgrid: false, zeroline: false };
    }
    Common.draw(element, traces, layout);
    const isEmpty = !traces.some(({ x, y }) => x.some((_, place) => Number.isFinite(x[place]) && Number.isFinite(y[place])));
    if (isEmpty) find("#status").textContent += " Nothing can be drawn: all runs diverged, or no such error is defined.";
  }

  // What is shown -------------------------------------------------------------------------------------

  function show(next) {
    state = next;
    const isChart = state.view !== "study";
    Common.showTabs(VIEWS, state.view);
    for (const view of ["steps", "curves"]) find(`#${view}`).hidden = view !== state.view; // they have nothing but a heading
    for (const part of ["form", "#algorithms", "#chart", "#status", "#hint"]) find(part).hidden = !isChart;
    for (const label of findAll("[data-for]")) label.hidden = label.dataset.for !== state.view;
    for (const select of findAll("[data-choice]")) select.value = state[select.dataset.choice];
    for (const row of findAll("#best tbody tr")) {
      row.hidden = row.dataset.task !== state.task || row.dataset.metric !== state.metric;
    }
    find("#answer").hidden = state.view !== "best" && !Common.isPrinting();
    for (const row of findAll("#answer tbody tr")) row.hidden = row.dataset.metric !== state.metric;
    find("#answer caption").textContent = `The best on each task: ${state.metric}`;
    if (!isChart) return;
    const names = stored().map(([name]) => name);
    Common.showSeries(state.hide, (name) => names.includes(name), colourOf);
    const step = state.view !== "curves" ? "" : state.step === BEST ? ", each at its best step size" : `, all at step size ${state.step}`;
    find("#status").textContent = `${state.task}: ${state.metric}${step}. ${shown().length} series.`;
    const alone = data.overPaths.includes(state.task) ? ["This task has one instance: intervals are over its paths and say nothing about other instances."] : [];
    const count = data.instances[state.task];
    const few = count < 5 ? [`Only ${count} instance${count === 1 ? "" : "s"}: not enough to say which is best.`] : [];
    const hint = state.view === "best" && data.together.includes(state.task) ? HINTS.together : HINTS[state.view];
    find("#hint").textContent = [hint, ...(state.view === "best" ? few : []), ...alone, ...(state.view === "curves" ? leftOut() : [])].join(" ");
    draw();
  }

  function leftOut() {
    const words = [];
    if (data.exact) words.push("Thin broken lines: exact root mean squares over all sample paths; up to chance, means lie a little below them.");
    if (data.thinned) words.push("Curves with more than 60 checkpoints are thinned to 60.");
    if (data.leftOut) words.push(`${data.leftOut.toLocaleString("en")} curves are left out to keep the page small: the best come first, and all are in runs.parquet.`);
    return words;
  }

  const { change, start } = Common.keepState(settled, show);
  const texts = { step: (name) => (name === BEST ? "the best of each" : `${name} for all`) };
  for (const name of ["task", "metric", "step"]) {
    Common.fillOptions(name, choices[name].map((value) => [value, (texts[name] ?? String)(value)]));
  }
  Common.fillSeries(data.series, change);
  Common.fillTabs(VIEWS, change);
  Common.listen(change);
  start();
})();
