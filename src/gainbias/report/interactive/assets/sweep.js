"use strict";

// The page of a sweep: its state is in the fragment of its address, and all that is shown follows from the state.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (selector) => document.querySelector(selector);
  const findAll = (selector) => [...document.querySelectorAll(selector)];
  const VIEWS = ["steps", "best", "curves", "study"];
  const BUTTONS = [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
  const BEST = "best";
  const MOST_RATIO = 1000; // of the largest error shown at first to the smallest
  const HINTS = {
    steps: "Mean error at the last step over all instances, with 95 % intervals. Step sizes with which an instance diverged are left out.",
    best: "Each series at its best step size, chosen on the instances with even numbers and measured on those with odd ones (with fewer than four, on all).",
    curves: "Means over all instances, with bands of 95 % intervals of the mean.",
  };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  // The library reads some HTML in texts: names are to be shown as they are.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const digits = (number) => (number === null ? "-" : String(Number(number.toPrecision(4))));

  function make(tag, text = "", attributes = {}) {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

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

  function stateOf(fragment) {
    const words = new URLSearchParams(fragment.replace(/^#/, ""));
    const found = Object.fromEntries([...words].filter(([name]) => name !== "hide"));
    return settled({ ...found, hide: words.getAll("hide") });
  }

  let state = stateOf(location.hash);

  function change(changes) {
    state = settled({ ...state, ...changes });
    const { hide, ...rest } = state;
    const words = new URLSearchParams(rest);
    for (const name of hide) words.append("hide", name);
    history.replaceState(null, "", `#${words}`);
    show();
  }

  // Charts --------------------------------------------------------------------------------------------

  // Dark ink would vanish on a dark page.
  function colourOf(name) {
    const channels = [1, 3, 5].map((place) => parseInt(data.series[name].colour.slice(place, place + 2), 16));
    const lighter = isDark() ? channels.map((value) => Math.round(value + 0.3 * (255 - value))) : channels;
    return lighter.join(",");
  }

  const stored = () => Object.entries(data.points[state.task]?.[state.metric] ?? {});
  const shown = () => stored().filter(([name]) => !state.hide.includes(name));
  const lineOf = (name) => ({ color: `rgb(${colourOf(name)})`, dash: data.series[name].dashes, width: 2 });

  function bars(mean, low, high) {
    const reach = (ends, sign) => mean.map((value, place) => (ends[place] === null ? 0 : sign * (ends[place] - value)));
    return { type: "data", symmetric: false, array: reach(high, 1), arrayminus: reach(low, -1), thickness: 1, width: 3 };
  }

  function sensitivity() {
    const ends = shown().flatMap(([, points]) => points.a).filter((a) => a !== null);
    const span = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0.1, 1];
    return shown().map(([name, { a, mean, low, high, schedules }]) => {
      const free = a[0] === null; // an algorithm without step sizes is a line across
      const x = free ? span : a;
      const y = free ? [mean[0], mean[0]] : mean;
      return {
        name: plain(name), x, y, mode: free ? "lines" : "lines+markers", connectgaps: false, line: lineOf(name),
        error_y: free ? undefined : bars(mean, low, high),
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
      marker: { color: `rgb(${colourOf(name)})`, size: 9 },
      error_x: bars([best.mean], [best.low], [best.high]),
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
      const places = x.map((_, place) => place).filter((place) => curve.high[place] !== null && curve.low[place] > 0);
      const back = [...places].reverse();
      const band = {
        x: [...places, ...back].map((place) => x[place]),
        y: [...places.map((place) => curve.low[place]), ...back.map((place) => curve.high[place])],
        mode: "lines", fill: "toself", fillcolor: `rgba(${colourOf(name)},0.15)`, line: { width: 0 }, hoverinfo: "skip",
      };
      return [band, { name: plain(name), x, y: curve.mean, mode: "lines", line: lineOf(name),
        customdata: x.map(() => plain(schedule)), hovertemplate: `%{y:.4~g} after %{x:,d} ${state.axis} (%{customdata})` }];
    });
  }

  // Step sizes that are far too large would squeeze all others together.
  function heights(traces) {
    const values = traces.flatMap(({ y }) => y).filter((value) => value > 0);
    if (!values.length) return undefined;
    const least = Math.min(...values), most = Math.min(Math.max(...values), MOST_RATIO * least);
    const margin = Math.max(0.05, 0.07 * Math.log10(most / least));
    return [Math.log10(least) - margin, Math.log10(most) + margin];
  }

  function draw() {
    const element = find("#chart");
    const isWide = element.clientWidth > 640;
    const axis = { type: "log", gridcolor: style("--line"), linecolor: style("--line"), zeroline: false,
      tickcolor: style("--line"), ticks: "outside", automargin: true, exponentformat: "power" };
    const titles = { steps: "Step size a", best: "Error at the last step", curves: state.axis === "steps" ? "Steps" : "Transitions" };
    const traces = { steps: sensitivity, best: bests, curves }[state.view]();
    const layout = {
      height: Math.min(520, Math.max(320, 0.5 * element.clientWidth)), margin: { l: 64, r: 8, t: 10, b: 52 },
      showlegend: false, hovermode: "closest", dragmode: isWide ? "zoom" : false,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: style("--ink"), family: getComputedStyle(document.body).fontFamily, size: 13 },
      hoverlabel: { bgcolor: style("--panel"), bordercolor: style("--line"), namelength: -1, font: { color: style("--ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--soft"), activecolor: style("--accent") },
      xaxis: { ...axis, title: { text: titles[state.view] } },
      yaxis: { ...axis, range: heights(traces), title: { text: plain(state.metric), standoff: 12 } },
    };
    if (state.view === "best") {
      layout.yaxis = { automargin: true, tickvals: traces.map((_, place) => place), ticktext: traces.map(({ name }) => name),
        range: [-0.6, traces.length - 0.4], showgrid: false, zeroline: false };
    }
    Plotly.react(element, traces, layout, { displaylogo: false, displayModeBar: isWide, modeBarButtons: BUTTONS });
  }

  // What is shown -------------------------------------------------------------------------------------

  function show() {
    const isChart = state.view !== "study";
    findAll('[role="tab"]').forEach((tab, place) => {
      const isShown = VIEWS[place] === state.view;
      tab.setAttribute("aria-selected", isShown);
      tab.tabIndex = isShown ? 0 : -1;
      find(`#${VIEWS[place]}`).hidden = !isShown;
    });
    for (const part of ["form", "#algorithms", "#chart", "#status", "#hint"]) find(part).hidden = !isChart;
    for (const label of findAll("[data-for]")) label.hidden = label.dataset.for !== state.view;
    for (const select of findAll("[data-choice]")) select.value = state[select.dataset.choice];
    for (const row of findAll("#best tbody tr")) {
      row.hidden = row.dataset.task !== state.task || row.dataset.metric !== state.metric;
    }
    if (!isChart) return;
    const names = stored().map(([name]) => name);
    for (const box of findAll("#algorithms input")) {
      box.disabled = !names.includes(box.value);
      box.checked = !box.disabled && !state.hide.includes(box.value);
      box.parentElement.classList.toggle("missing", box.disabled);
      box.parentElement.querySelector("line").style.stroke = `rgb(${colourOf(box.value)})`;
    }
    const step = state.view !== "curves" ? "" : state.step === BEST ? ", each at its best step size" : `, all at step size ${state.step}`;
    find("#status").textContent = `${state.task}: ${state.metric}${step}. ${shown().length} series.`;
    find("#hint").textContent = [HINTS[state.view], ...(state.view === "curves" ? leftOut() : [])].join(" ");
    draw();
  }

  function leftOut() {
    const words = [];
    if (data.thinned) words.push("Curves with more than 60 checkpoints are thinned to 60.");
    if (data.leftOut) words.push(`${data.leftOut.toLocaleString("en")} curves are left out to keep the page small: the best come first, and all are in runs.parquet.`);
    return words;
  }

  function fillControls() {
    const texts = { step: (name) => (name === BEST ? "the best of each" : `${name} for all`) };
    for (const name of ["task", "metric", "step"]) {
      const select = find(`[data-choice="${name}"]`);
      for (const value of choices[name]) select.append(make("option", (texts[name] ?? String)(value), { value }));
    }
    for (const [name, look] of Object.entries(data.series)) {
      const label = make("label");
      const box = make("input", "", { type: "checkbox", value: name });
      box.addEventListener("change", () => {
        const others = state.hide.filter((hidden) => hidden !== name);
        change({ hide: box.checked ? others : [...others, name] });
      });
      label.append(box, swatch(look), make("span", name));
      find("#algorithms").append(label);
    }
  }

  function swatch(look) {
    const make = (tag, attributes) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      return element;
    };
    const dashes = look.dashes === "solid" ? "none" : look.dashes.replace(/px/g, "");
    const svg = make("svg", { width: 26, height: 8, "aria-hidden": true });
    svg.append(make("line", { x1: 0, x2: 26, y1: 4, y2: 4, "stroke-width": 2.4, "stroke-dasharray": dashes }));
    return svg;
  }

  function listen() {
    for (const select of findAll("[data-choice]")) {
      select.addEventListener("change", () => change({ [select.dataset.choice]: select.value }));
    }
    const tabs = findAll('[role="tab"]');
    tabs.forEach((tab, place) => {
      tab.addEventListener("click", () => change({ view: VIEWS[place] }));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = (place + step + tabs.length) % tabs.length;
        change({ view: VIEWS[next] });
        tabs[next].focus();
      });
    });
    find("form").addEventListener("submit", (event) => event.preventDefault());
    find("[data-skip]").addEventListener("click", (event) => {
      event.preventDefault();
      find("#main").focus();
    });
    addEventListener("hashchange", () => {
      state = stateOf(location.hash);
      show();
    });
    let waiting;
    addEventListener("resize", () => {
      clearTimeout(waiting);
      waiting = setTimeout(show, 150);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  }

  document.body.classList.add("tabbed");
  find('[role="tablist"]').hidden = false;
  fillControls();
  listen();
  show();
})();
