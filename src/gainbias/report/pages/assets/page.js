"use strict";

// The page: its state is in the fragment of its address, and all that is shown follows from the state.
(() => {
  const { find, findAll, make } = Common;
  const data = Common.data();
  const hasMaps = Object.keys(data.maps).length > 0;
  const VIEWS = ["verdicts", "curves", "maps", "tables", "study"].filter((view) => view !== "maps" || hasMaps);
  const AXES = ["steps", "transitions"];
  const FRAME_TIME = 350; // milliseconds
  const protocols = Object.keys(data.protocols);
  const grids = findAll(".grid");
  const mapped = Object.keys(data.tasks).filter((task) => Object.values(data.maps).some((maps) => task in maps));
  const tables = [...new Set(grids.map((grid) => grid.dataset.table))];

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
    const state = { claim: "", ...wanted, sort: parseInt(wanted.sort, 10) || 0 };
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
    state.frame = parseInt(state.frame, 10);
    state.frame = state.frame >= 0 && state.frame <= last ? state.frame : last;
    return state;
  }

  // Choices of maps are no matter elsewhere.
  function said({ map, estimate, constant, frame, sort, ...rest }) {
    return { ...rest, ...(rest.view === "maps" ? { map, estimate, constant, frame } : {}), sort: sort || undefined };
  }

  let state;

  // What is shown -------------------------------------------------------------------------------------

  function show(next) {
    state = next;
    Common.showTabs(VIEWS, state.view);
    const choices = choicesOf(state);
    for (const select of findAll("[data-choice]")) {
      const name = select.dataset.choice;
      for (const option of select.options) option.hidden = option.disabled = !choices[name].includes(option.value);
      select.value = state[name];
    }
    const isShown = (view) => VIEWS.includes(view) && (state.view === view || Common.isPrinting());
    if (state.view !== "maps") pause();
    if (isShown("curves")) showCurves();
    if (isShown("maps")) showMap();
    if (isShown("tables")) showTable();
    if (state.view === "verdicts") showClaim();
  }

  function showCurves() {
    const every = state.task === Chart.EVERY_TASK;
    const shown = every ? Object.keys(data.tasks) : [state.task];
    Common.showSeries(state.hide, (name) => shown.some((task) => Chart.curveOf(data, state, task, name)),
      (name) => Chart.colourOf(data.algorithms[name]));
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
    const parts = [`Lines are means over runs, bands the ${spreadOf()}; with more than ${Chart.MOST_BANDS} lines, point at a name to see its band.`];
    if (state.kind === "paper") {
      parts.push("As in the paper: the full error for double and single chain and least squares, modulo",
        "constants for the others. Marks on the right are the paper's printed end points; an arrow means 0.00.");
    }
    parts.push("Step sizes are the paper's: how errors depend on them is a question for a sweep (gainbias sweep).");
    if (data.thinned) parts.push("Curves with more than 60 checkpoints are thinned to 60.");
    return parts.join(" ");
  }

  const spreadOf = () => [...new Set(Object.values(data.curves[state.protocol]).flatMap((task) =>
    Object.values(task).map(({ spread }) => spread)))].join(" or ");

  // The same in words: the chart says nothing to those who cannot see it.
  function showEnds(curves) {
    find("#ends").hidden = !curves;
    if (!curves) return;
    const printed = Chart.printedOf(data, state, state.task);
    const hasPrinted = Object.keys(printed).length > 0;
    const header = ["Algorithm", "Mean error at the end", spreadOf().replace(/^./, (letter) => letter.toUpperCase()), "Runs", "Diverged",
      ...(hasPrinted ? ["Printed in the paper"] : [])];
    const table = make("table", "", { class: "cards" });
    const head = make("tr");
    head.append(...header.map((title) => make("th", title, { scope: "col" })));
    const body = make("tbody");
    for (const [name, curve] of curves) {
      const [mean, low, high] = ["mean", "low", "high"].map((part) => Chart.digits(curve[part].at(-1), 2));
      const paper = printed[name] ? Chart.asPrinted(printed[name]) : "-";
      const row = make("tr");
      row.append(make("th", data.algorithms[name].title, { scope: "row" }),
        ...[mean, `${low} to ${high}`, curve.runs, curve.diverged, paper].slice(0, header.length - 1)
          .map((text, place) => make("td", text, { "data-title": header[place + 1] })));
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
    if (shown && state.sort) Common.sortTable(shown.querySelector("table"), state.sort);
  }

  function showClaim() {
    const claim = findAll(".claim").find((details) => details.dataset.claim === state.claim);
    if (!claim) return;
    for (const other of findAll(".claim")) other.open = other === claim;
    claim.scrollIntoView({ block: "start" });
  }

  // Controls ------------------------------------------------------------------------------------------

  const { change, start } = Common.keepState(settled, show, said);

  function fillControls() {
    const titles = Object.entries(data.tasks), algorithms = Object.entries(data.algorithms);
    const every = titles.length > 1 ? [[Chart.EVERY_TASK, "Every task, side by side"]] : [];
    Common.fillOptions("task", [...titles, ...every]);
    Common.fillOptions("map", mapped.map((task) => [task, data.tasks[task]]));
    Common.fillOptions("estimate", algorithms.map(([name, { title }]) => [name, title]));
    Common.fillOptions("protocol", protocols.map((name) => [name, name]));
    Common.fillSeries(data.algorithms, change);
    Common.fillTabs(VIEWS, change);
    Common.fillTitles((table, sort) => (table.closest(".grid") ? change({ sort }) : Common.sortTable(table, sort)));
  }

  function listen() {
    // A protocol has a metric and a target of its own; a table, columns.
    Common.listen(change, (name, value) =>
      ({ protocol: data.protocols[value], table: { sort: 0 } })[name] ?? {});
    for (const label of findAll("#algorithms label")) {
      const title = Common.plain(data.algorithms[label.querySelector("input").value].title);
      for (const name of ["pointerenter", "focusin"]) label.addEventListener(name, () => Chart.showBand(find("#chart"), title));
      for (const name of ["pointerleave", "focusout"]) label.addEventListener(name, () => Chart.showBand(find("#chart")));
    }
    find("#frame").addEventListener("input", ({ target }) => {
      pause();
      change({ frame: Number(target.value) });
    });
    find("#play").addEventListener("click", () => (playing ? pause() : play()));
  }

  fillControls();
  listen();
  start();
})();
