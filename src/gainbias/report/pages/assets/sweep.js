"use strict";

// The page of a sweep: its state is in the fragment of its address, and all that is shown follows from the state.
(() => {
  const { axis, band, errorBars, find, findAll, plain, readable, style } = Common;
  const data = Common.data();
  const VIEWS = ["best", "steps", "curves", "study"];
  const BEST = "best";
  const MOST_PANELS = 6; // small charts on the first screen; with more tasks there is only that of the chosen one
  const FAR = 3; // times as far from the smallest end as half of all intervals end: what lies beyond has an arrow
  const MOST_RATIO = 1000; // of the largest error shown at first to the smallest
  const HINTS = {
    steps: "Mean error at the last step over all instances, with 95% intervals. A ring: its interval reaches down to 0. Step sizes with which an instance diverged are left out.",
    best: "Each series at its best step size, chosen on every second instance and measured on the others, with 95% Student intervals.",
    together: "Each series at its best step size, chosen and measured on the same instances, because there are few: these errors tend to be too small.",
    curves: "Means over all instances, with bands of 95% intervals of the mean.",
  };

  // State ---------------------------------------------------------------------------------------------

  const choices = {
    view: VIEWS,
    task: Object.keys(data.tasks),
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

  const titleOf = (name) => plain(data.series[name].title);
  const colourOf = (name) => readable(data.series[name].colour);
  const stored = () => Object.entries(data.points[state.task]?.[state.metric] ?? {});
  const shown = () => stored().filter(([name]) => !state.hide.includes(name));
  const lineOf = (name) => ({ color: colourOf(name), dash: data.series[name].dashes, width: 2 });

  function sensitivity() {
    const ends = shown().flatMap(([, points]) => points.a).filter((a) => a !== null);
    const span = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0.1, 1];
    return shown().map(([name, { a, mean, low, high, schedules }]) => {
      const free = a[0] === null; // an algorithm without step sizes is a line across
      const isVague = low.map((end) => end !== null && end <= 0); // its bar would cross the whole chart
      const bars = errorBars(mean, low, high);
      for (const side of ["array", "arrayminus"]) bars[side] = bars[side].map((reach, place) => (isVague[place] ? null : reach));
      const x = free ? span : a;
      const y = free ? [mean[0], mean[0]] : mean;
      return {
        name: titleOf(name), x, y, mode: free ? "lines" : "lines+markers", connectgaps: false, line: lineOf(name),
        error_y: free ? undefined : bars,
        marker: { symbol: isVague.map((vague) => (vague ? "circle-open" : "circle")), size: 7 },
        customdata: x.map((_, place) => (free ? "no step size" : plain(schedules[place]))),
        hovertemplate: "%{customdata}: %{y:.4~g}",
      };
    });
  }

  // A small chart for each task: a row for each series, the best one at the top. What lies far out would squeeze all
  // others together: an arrow at the edge stands for it.
  function panel(element, task) {
    const found = Object.entries(data.points[task]?.[state.metric] ?? {}).map(([name, { best }]) => [name, best])
      .filter(([, best]) => best.mean !== null).sort(([, one], [, other]) => other.mean - one.mean);
    const lows = found.map(([, { mean, low }]) => low ?? mean), highs = found.map(([, { mean, high }]) => high ?? mean);
    const least = Math.min(...lows), middle = [...highs].sort((one, other) => one - other)[(highs.length - 1) >> 1];
    const most = Math.min(Math.max(...highs), least + FAR * (middle - least) || Infinity), margin = 0.06 * (most - least) || 0.1 * most || 1;
    const traces = found.map(([name, best], place) => ({
      name: titleOf(name), x: [Math.min(best.mean, most)], y: [place], mode: best.mean > most ? "markers+text" : "markers",
      text: [best.mean >= 100 ? best.mean.toPrecision(2).replace(/e\+?/, "e") : best.mean.toPrecision(2)], textposition: "middle left",
      marker: { color: colourOf(name), size: best.mean > most ? 12 : 9, symbol: best.mean > most ? "triangle-right" : "circle" },
      error_x: best.mean > most ? undefined : errorBars([best.mean], [best.low], [Math.min(best.high ?? best.mean, most + margin)]),
      customdata: [[plain(best.schedule), best.mean]],
      hovertemplate: "%{customdata[1]:.3~g} at step size %{customdata[0]}",
    }));
    const cut = found.map(([name, { mean, high }], place) => [name, mean, high, place]).filter(([, mean, high]) => mean <= most && high > most);
    traces.push(...cut.map(([name, , , place]) => ({ x: [most + margin], y: [place], mode: "markers", hoverinfo: "skip",
      marker: { color: colourOf(name), size: 9, symbol: "triangle-right" } })));
    const layout = {
      height: 84 + 30 * found.length, margin: { l: 10, r: 16, t: 28, b: 54 },
      title: { text: plain(data.tasks[task]), x: 0, xref: "paper", xanchor: "left", y: 0.99, yanchor: "top", font: { size: 13 } },
      xaxis: { ...axis(), range: [least - margin, most + 1.5 * margin], nticks: 4, tickangle: 0, title: { text: `Error after ${data.steps} steps`, standoff: 6, font: { size: 12 } } },
      yaxis: { automargin: true, tickvals: found.map((_, place) => place), ticktext: found.map(([name]) => titleOf(name)),
        range: [-0.6, found.length - 0.4], showgrid: false, zeroline: false },
    };
    Common.draw(element, traces, layout, false);
    return cut.length > 0 || found.some(([, { mean }]) => mean > most);
  }

  function drawPanels() {
    const every = Object.keys(data.tasks), tasks = every.length > MOST_PANELS ? [state.task] : every;
    const parts = findAll("#panels > div");
    while (parts.length < tasks.length) parts.push(find("#panels").appendChild(Common.make("div", "", { role: "img" })));
    const cut = tasks.map((task, place) => {
      parts[place].setAttribute("aria-label", `Errors with 95% intervals: ${data.tasks[task]}`);
      return panel(parts[place], task);
    });
    find("#clipped").textContent = cut.some(Boolean) ? "An arrow at the right edge: the interval, or the error itself with its number, lies beyond it." : "";
  }

  function curves() {
    return shown().flatMap(([name, { best, curves: kept }]) => {
      const schedule = state.step === BEST ? best.schedule : state.step;
      const curve = kept[schedule];
      if (!curve) return [];
      const x = curve[state.axis];
      const shared = { x, mode: "lines", customdata: x.map(() => plain(schedule)),
        hovertemplate: `%{y:.4~g} after %{x:,d} ${state.axis} (%{customdata})` };
      const mean = { ...shared, name: titleOf(name), y: curve.mean, line: lineOf(name) };
      const exact = { ...shared, name: `${titleOf(name)}, exact`, y: curve.exact, line: { color: style("--ink"), width: 1, dash: "6px,3px" } };
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
    const titles = { steps: "Step size <i>a</i> (log scale)", curves: `${state.axis === "steps" ? "Steps" : "Transitions"} (log scale)` };
    const raw = { steps: sensitivity, curves }[state.view]();
    const range = heights(raw);
    const traces = raw.map((trace) => (trace.fill ? Common.downTo(10 ** range[0], trace) : trace));
    const across = traces.flatMap(({ x }) => x).filter((value) => value > 0);
    const logarithmic = (least, most) => ({ ...axis(), ...Common.logarithmic(least, most), automargin: true });
    const layout = {
      height: Math.min(520, Math.max(320, 0.5 * element.clientWidth)),
      xaxis: { ...logarithmic(Math.min(...across), Math.max(...across)), title: { text: titles[state.view] } },
      yaxis: { ...logarithmic(...range.map((power) => 10 ** power)), range, title: { text: Common.isWide(element) && !Common.isPrinting() ? `${plain(state.metric)} (log scale)` : "Error (log scale)", standoff: 12 } },
    };
    Common.draw(element, traces, layout);
    const isEmpty = !traces.some(({ x, y }) => x.some((_, place) => Number.isFinite(x[place]) && Number.isFinite(y[place])));
    if (isEmpty) find("#status").textContent += " Nothing can be drawn: all runs diverged, or no such error is defined.";
  }

  // What is shown -------------------------------------------------------------------------------------

  function show(next) {
    state = next;
    const isChart = state.view !== "study", isBest = state.view === "best";
    Common.showTabs(VIEWS, state.view);
    for (const view of ["steps", "curves"]) find(`#${view}`).hidden = view !== state.view; // they have nothing but a heading
    for (const part of ["form", "#hint"]) find(part).hidden = !isChart;
    for (const part of ["#algorithms", "#chart", "#status"]) find(part).hidden = !isChart || isBest;
    for (const part of ["#panels", "#clipped"]) find(part).hidden = !isBest;
    for (const sentence of findAll("p.answer")) sentence.hidden = sentence.dataset.metric !== state.metric;
    for (const label of findAll("[data-for]")) label.hidden = label.dataset.for !== state.view;
    for (const select of findAll("[data-choice]")) select.value = state[select.dataset.choice];
    for (const row of findAll("#best tbody tr")) {
      row.hidden = row.dataset.task !== state.task || row.dataset.metric !== state.metric;
    }
    find("#answer").hidden = state.view !== "best" && !Common.isPrinting();
    for (const row of findAll("#answer tbody tr")) row.hidden = row.dataset.metric !== state.metric;
    find("#answer caption").textContent = `Lowest error on each task: ${state.metric}`;
    find("#best caption").textContent = `All on ${data.tasks[state.task]}: ${state.metric}`;
    if (!isChart) return;
    const names = stored().map(([name]) => name);
    Common.showSeries(state.hide, (name) => names.includes(name), colourOf);
    const step = state.view !== "curves" ? "" : state.step === BEST ? ", each at its best step size" : `, all at step size ${state.step}`;
    find("#status").textContent = `${data.tasks[state.task]}: ${state.metric}${step}. ${shown().length} series.`;
    const alone = data.overPaths.includes(state.task) ? ["This task has one instance: intervals are over its paths and say nothing about other instances."] : [];
    const count = data.instances[state.task];
    const few = count < 5 ? [`Only ${count} instance${count === 1 ? "" : "s"}: not enough to say which is best.`] : [];
    const hint = state.view === "best" && data.together.includes(state.task) ? HINTS.together : HINTS[state.view];
    find("#hint").textContent = [hint, ...(state.view === "best" ? few : []), ...alone, ...(state.view === "curves" ? leftOut() : [])].join(" ");
    if (isBest) drawPanels();
    else draw();
  }

  function leftOut() {
    const words = [];
    if (data.exact) words.push("Thin broken lines: exact root mean squares over all sample paths; up to chance, means lie a little below them.");
    if (data.thinned) words.push("Curves with more than 60 checkpoints are thinned to 60.");
    if (data.leftOut) words.push(`${data.leftOut.toLocaleString("en")} curves are left out to keep the page small: the best come first, and all are in runs.parquet.`);
    return words;
  }

  const { change, start } = Common.keepState(settled, show);
  const texts = { task: (name) => data.tasks[name], step: (name) => (name === BEST ? "the best of each" : `${name} for all`) };
  for (const name of ["task", "metric", "step"]) {
    Common.fillOptions(name, choices[name].map((value) => [value, (texts[name] ?? String)(value)]));
  }
  Common.fillSeries(data.series, change);
  Common.fillTabs(VIEWS, change);
  Common.listen(change);
  start();
})();
