"use strict";

// The page: its state is in the fragment of its address, and all that is shown follows from the state.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (selector) => document.querySelector(selector);
  const findAll = (selector) => [...document.querySelectorAll(selector)];
  const hasMaps = Object.keys(data.maps).length > 0;
  const VIEWS = ["curves", "maps", "tables", "verdicts", "study"].filter((view) => view !== "maps" || hasMaps);
  const AXES = ["steps", "transitions"];
  const FRAME_TIME = 350; // milliseconds
  const protocols = Object.keys(data.protocols);
  const grids = findAll(".grid");
  const mapped = Object.keys(data.tasks).filter((task) => Object.values(data.maps).some((maps) => task in maps));
  const tables = [...new Set(grids.map((grid) => grid.dataset.table))];

  function make(tag, text = "", attributes = {}) {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  // State ---------------------------------------------------------------------------------------------

  // The metrics that are stored under a protocol, as triples of kind, target and norm.
  function metricsOf(protocol) {
    const found = Object.values(data.curves[protocol]).flatMap((task) =>
      Object.values(task).flatMap((curve) => Object.keys(curve.errors)));
    return [...new Set(found)].map((metric) => metric.split("|"));
  }

  const mapOf = (state) => data.maps[state.protocol]?.[state.map];

  function choicesOf(state) {
    const metrics = metricsOf(state.protocol);
    const kinds = [...new Set(metrics.map(([kind]) => kind))];
    return {
      view: VIEWS,
      task: [...Object.keys(data.tasks), Chart.EVERY_TASK],
      protocol: protocols,
      kind: ["paper", ...kinds],
      target: [...new Set(metrics.map(([, target]) => target))],
      norm: [...new Set(metrics.filter(([, target]) => target === state.target).map(([, , norm]) => norm))],
      axis: AXES,
      table: tables,
      map: mapped.filter((task) => data.maps[state.protocol]?.[task]),
      estimate: Object.keys(mapOf(state)?.frames ?? {}),
      constant: ["without", "with"],
    };
  }

  // Whatever an address asks for, the state is one that can be shown.
  function settled(wanted) {
    const state = { hide: [], claim: "", sort: 0, ...wanted };
    if (!protocols.includes(state.protocol)) state.protocol = protocols[0];
    const opening = { ...data.protocols[state.protocol], norm: "euclidean" };
    for (const name of ["view", "task", "kind", "target", "norm", "axis", "table", "map", "estimate", "constant"]) {
      const choices = choicesOf(state)[name];
      if (!choices.includes(state[name])) {
        state[name] = choices.includes(opening[name]) ? opening[name] : choices[0];
      }
    }
    state.hide = state.hide.filter((name) => name in data.algorithms);
    const last = (mapOf(state)?.frames[state.estimate].steps.length ?? 1) - 1;
    state.frame = state.frame >= 0 && state.frame <= last ? Math.round(state.frame) : last;
    return state;
  }

  function stateOf(fragment) {
    const words = new URLSearchParams(fragment.replace(/^#/, ""));
    const found = Object.fromEntries([...words].filter(([name]) => name !== "hide"));
    const numbers = { sort: parseInt(words.get("sort"), 10) || 0, frame: parseInt(words.get("frame"), 10) };
    return settled({ ...found, hide: words.getAll("hide"), ...numbers });
  }

  function fragmentOf({ hide, sort, claim, map, estimate, constant, frame, ...rest }) {
    const ofMaps = rest.view === "maps" ? { map, estimate, constant, frame } : {};
    const words = new URLSearchParams({ ...rest, ...ofMaps });
    for (const name of hide) words.append("hide", name);
    if (sort) words.set("sort", sort);
    if (claim) words.set("claim", claim);
    return `#${words}`;
  }

  let state = stateOf(location.hash);

  function change(changes) {
    state = settled({ ...state, ...changes });
    history.replaceState(null, "", fragmentOf(state));
    show();
  }

  // Controls ------------------------------------------------------------------------------------------

  function fillControls() {
    const taskChoice = find('[data-choice="task"]');
    for (const [task, title] of Object.entries(data.tasks)) {
      taskChoice.append(make("option", title, { value: task }));
    }
    if (Object.keys(data.tasks).length > 1) {
      taskChoice.append(make("option", "Every task, side by side", { value: Chart.EVERY_TASK }));
    }
    for (const task of mapped) find('[data-choice="map"]').append(make("option", data.tasks[task], { value: task }));
    for (const [name, algorithm] of Object.entries(data.algorithms)) {
      find('[data-choice="estimate"]').append(make("option", algorithm.title, { value: name }));
    }
    for (const select of findAll('[data-choice="protocol"]')) {
      for (const name of protocols) select.append(make("option", name, { value: name }));
    }
    for (const [name, algorithm] of Object.entries(data.algorithms)) {
      const label = make("label");
      const box = make("input", "", { type: "checkbox", value: name });
      box.addEventListener("change", () => {
        const others = state.hide.filter((hidden) => hidden !== name);
        change({ hide: box.checked ? others : [...others, name] });
      });
      label.append(box, swatch(algorithm), make("span", algorithm.title));
      find("#algorithms").append(label);
    }
  }

  function swatch(algorithm) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const dashes = algorithm.dashes === "solid" ? "none" : algorithm.dashes.replace(/px/g, "");
    for (const [name, value] of Object.entries({ width: 26, height: 8, "aria-hidden": true })) {
      svg.setAttribute(name, value);
    }
    for (const [name, value] of Object.entries({ x1: 0, x2: 26, y1: 4, y2: 4,
      "stroke-width": algorithm.width + 0.6, "stroke-dasharray": dashes })) {
      line.setAttribute(name, value);
    }
    svg.append(line);
    return svg;
  }

  function listen() {
    for (const select of findAll("[data-choice]")) {
      const name = select.dataset.choice;
      select.addEventListener("change", () => {
        // A protocol has a metric and a target of its own; a table, columns.
        const opening = name === "protocol" ? data.protocols[select.value] : {};
        change({ ...opening, ...(name === "table" ? { sort: 0 } : {}), [name]: select.value });
      });
    }
    find("#frame").addEventListener("input", ({ target }) => {
      pause();
      change({ frame: Number(target.value) });
    });
    find("#play").addEventListener("click", () => (playing ? pause() : play()));
    const tabs = VIEWS.map((view) => find(`#tab-${view}`));
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
    for (const form of findAll("form")) form.addEventListener("submit", (event) => event.preventDefault());
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

  // What is shown -------------------------------------------------------------------------------------

  function show() {
    for (const tab of findAll('[role="tab"]')) {
      const view = tab.getAttribute("aria-controls");
      const isShown = view === state.view;
      tab.hidden = !VIEWS.includes(view);
      tab.setAttribute("aria-selected", isShown);
      tab.tabIndex = isShown ? 0 : -1;
      find(`#${view}`).hidden = !isShown;
    }
    const choices = choicesOf(state);
    for (const select of findAll("[data-choice]")) {
      const name = select.dataset.choice;
      for (const option of select.options) option.hidden = option.disabled = !choices[name].includes(option.value);
      select.value = state[name];
    }
    if (state.view === "curves") showCurves();
    if (state.view === "maps") showMap();
    else pause();
    if (state.view === "tables") showTable();
    if (state.view === "verdicts") showClaim();
  }

  function showCurves() {
    const every = state.task === Chart.EVERY_TASK;
    const shown = every ? Object.keys(data.tasks) : [state.task];
    for (const box of findAll("#algorithms input")) {
      const isStored = shown.some((task) => Chart.curveOf(data, state, task, box.value));
      box.checked = isStored && !state.hide.includes(box.value);
      box.disabled = !isStored;
      box.parentElement.classList.toggle("missing", !isStored);
      box.parentElement.title = isStored ? "" : "not stored under this protocol and metric";
      box.parentElement.querySelector("line").style.stroke = Chart.colourOf(data.algorithms[box.value]);
    }
    const title = every ? "Every task" : data.tasks[state.task];
    const curves = every ? undefined : Chart.shownCurves(data, state, state.task);
    const count = every ? "" : `, ${curves.size} ${curves.size === 1 ? "algorithm" : "algorithms"}`;
    find("#status").textContent = `${title}, protocol ${state.protocol}${count}. ${Chart.yTitle(state)}, by ${state.axis}.`;
    find("#chart").setAttribute("aria-label", `Learning curves: ${find("#status").textContent}`);
    find("#hint").textContent = hint();
    showEnds(curves);
    Chart.draw(find("#chart"), data, state);
  }

  function showMap() {
    const map = mapOf(state), frames = map.frames[state.estimate];
    const slider = find("#frame");
    slider.max = frames.steps.length - 1;
    slider.value = state.frame;
    slider.setAttribute("aria-valuetext", find("#steps").textContent = Maps.stepsAt(frames, state.frame));
    const title = `${data.tasks[state.map]}, protocol ${state.protocol}, ${data.algorithms[state.estimate].title}`;
    find("#map-status").textContent = `${title}, ${Maps.inWords(map, state)}.`;
    find("#map").setAttribute("aria-label", `Exact bias, estimate and difference on the map: ${title}`);
    Maps.draw(find("#map"), map, state);
  }

  let playing;

  function play() {
    const count = mapOf(state).frames[state.estimate].steps.length;
    const next = () => {
      change({ frame: (state.frame + 1) % count });
      if (state.frame === count - 1) pause();
    };
    playing = setInterval(next, FRAME_TIME);
    find("#play").textContent = "Pause";
    find("#map-status").setAttribute("aria-live", "off"); // nobody can listen that fast
    next();
  }

  function pause() {
    clearInterval(playing);
    playing = undefined;
    find("#play").textContent = "Play";
    find("#map-status").setAttribute("aria-live", "polite");
  }

  function hint() {
    const parts = ["Lines are means over runs, bands the middle 80 % of them (all, if they are few)."];
    if (state.kind === "paper") {
      parts.push("As in the paper: the full error for double and single chain and least squares, modulo",
        "constants for the others. Marks on the right are the paper's printed end points; an arrow means 0.00.");
    }
    parts.push("Step sizes are the paper's: how errors depend on them is a question for a sweep (gainbias sweep).");
    if (data.thinned) parts.push("Curves with more than 60 checkpoints are thinned to 60.");
    return parts.join(" ");
  }

  // The same in words: the chart says nothing to those who cannot see it.
  function showEnds(curves) {
    find("#ends").hidden = !curves;
    if (!curves) return;
    const printed = Chart.printedOf(data, state, state.task);
    const header = ["Algorithm", "Mean error at the end", "Middle 80 %", "Runs", "Diverged", "Printed in the paper"];
    const table = make("table");
    const head = make("tr");
    head.append(...header.map((title) => make("th", title, { scope: "col" })));
    const body = make("tbody");
    for (const [name, curve] of curves) {
      const [mean, low, high] = ["mean", "low", "high"].map((part) => Chart.digits(curve[part].at(-1)));
      const paper = printed[name] ? Chart.asPrinted(printed[name]) : "-";
      const row = make("tr");
      row.append(make("th", data.algorithms[name].title, { scope: "row" }),
        ...[mean, `${low} to ${high}`, curve.runs, curve.diverged, paper].map((text) => make("td", text)));
      body.append(row);
    }
    table.append(make("caption", "At the end of the curves"), make("thead"), body);
    table.tHead.append(head);
    find("#ends").replaceChildren(table);
  }

  function showTable() {
    const candidates = grids.filter((grid) => grid.dataset.table === state.table);
    const shown = candidates.find((grid) => grid.dataset.protocol === state.protocol) ?? candidates[0];
    for (const grid of grids) grid.hidden = grid !== shown;
    find('#tables [data-choice="protocol"]').disabled = candidates.length < 2;
    if (shown && state.sort) sortTable(shown.querySelector("table"), state.sort);
  }

  function showClaim() {
    const claim = findAll(".claim").find((details) => details.dataset.claim === state.claim);
    if (!claim) return;
    claim.open = true;
    claim.scrollIntoView({ block: "start" });
  }

  // Sorting -------------------------------------------------------------------------------------------

  // Column n, counted from 1; upwards if n is positive, downwards if it is negative. What is no number comes last.
  function sortTable(table, sort) {
    const place = Math.abs(sort) - 1, sign = Math.sign(sort);
    const titles = [...table.tHead.rows[0].cells];
    if (place >= titles.length) return;
    titles.forEach((title, other) => title.setAttribute("aria-sort",
      other !== place ? "none" : sign > 0 ? "ascending" : "descending"));
    const rows = [...table.tBodies[0].rows];
    const numeric = rows.some((row) => "number" in row.cells[place].dataset);
    const valueOf = (row) => Number(row.cells[place].dataset.number?.replace("inf", "Infinity") ?? NaN);
    rows.sort((one, other) => {
      if (!numeric) return sign * one.cells[place].textContent.localeCompare(other.cells[place].textContent, "en");
      const [a, b] = [valueOf(one), valueOf(other)];
      return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : sign * (a - b || 0);
    });
    table.tBodies[0].append(...rows);
  }

  function makeSortable(table) {
    [...table.tHead.rows[0].cells].forEach((title, place) => {
      const button = make("button", title.textContent, { type: "button" });
      title.replaceChildren(button);
      button.addEventListener("click", () => {
        const sort = (title.getAttribute("aria-sort") === "ascending" ? -1 : 1) * (place + 1);
        if (table.closest(".grid")) change({ sort });
        else sortTable(table, sort);
      });
    });
  }

  document.body.classList.add("tabbed");
  find('[role="tablist"]').hidden = false;
  findAll("table.sortable").forEach(makeSortable);
  fillControls();
  listen();
  show();
})();
