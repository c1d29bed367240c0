"use strict";

// What the scripts of all pages share: elements, colours, basics of charts, controls, and a state that is in the
// fragment of the address.
const Common = (() => {
  // Named one by one: by default the library also offers to send a chart to its makers.
  const BUTTONS = [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
  const WIDE = 640; // pixels; a narrower chart is one on a phone
  const LIGHTER = 0.3; // share of the way to white on a dark page
  const PAUSE = 150; // milliseconds without a change of size, before all is drawn again
  const CLEAR = "rgba(0,0,0,0)";
  const FEW_DECADES = 2.1, NUMBERS_OF_A_DECADE = 1.4; // along a logarithmic axis

  // Elements ------------------------------------------------------------------------------------------

  const find = (selector) => document.querySelector(selector);
  const findAll = (selector) => [...document.querySelectorAll(selector)];
  const data = () => JSON.parse(find("#data").textContent);

  function withAttributes(element, attributes) {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  function make(tag, text = "", attributes = {}) {
    const element = document.createElement(tag);
    element.textContent = text;
    return withAttributes(element, attributes);
  }

  // Texts and colours ---------------------------------------------------------------------------------

  // The library reads some HTML in texts: names are to be shown as they are.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // Four digits, as stored.
  const digits = (number, missing = "-") =>
    (Number.isFinite(number) ? String(Number(number.toPrecision(4))) : missing);

  // A few numbers along a logarithmic axis: whole ones where they are short, powers of ten elsewhere. The library also
  // numbers parts of a decade where there are more than NUMBERS_OF_A_DECADE numbers to one.
  function logarithmic(least, most) {
    const decades = Math.log10(most / least);
    return { type: "log", nticks: decades > FEW_DECADES ? Math.min(4, Math.floor(decades * NUMBERS_OF_A_DECADE)) : 4,
      ...(least >= 1e-4 && most < 1e6 ? { tickformat: ",~g" } : { exponentformat: "power" }) };
  }

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isPrinting = () => "print" in root.dataset;

  const channelsOf = (colour) => (colour.startsWith("#")
    ? [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16))
    : colour.match(/\d+/g).slice(0, 3).map(Number));

  const lighter = (colour) =>
    `rgb(${channelsOf(colour).map((value) => Math.round(value + LIGHTER * (255 - value))).join(",")})`;

  // Dark colours would vanish on a dark page; black is whatever the page writes with.
  const readable = (colour) =>
    (colour === "#000000" ? style("--ink") : darkness.matches && !isPrinting() ? lighter(colour) : colour);

  const seeThrough = (colour, share) => `rgba(${channelsOf(colour).join(",")},${share})`;

  // Charts --------------------------------------------------------------------------------------------

  const isWide = (element) => element.clientWidth > WIDE;

  // The number at the right end of an axis needs room, or it is not written.
  const margins = (top, bottom = 52) => ({ l: 64, r: 34, t: top, b: bottom });

  const axis = () => ({ gridcolor: style("--line"), linecolor: style("--line"), tickcolor: style("--line"),
    ticks: "outside", zeroline: false });

  // On a phone a finger scrolls the page.
  const layout = (element) => ({
    margin: margins(10), paper_bgcolor: CLEAR, plot_bgcolor: CLEAR, showlegend: false,
    hovermode: "closest", dragmode: isWide(element) ? "zoom" : false,
    font: { color: style("--ink"), family: getComputedStyle(document.body).fontFamily, size: 13 },
    hoverlabel: { bgcolor: style("--panel"), bordercolor: style("--line"), namelength: -1, font: { color: style("--ink") } },
    modebar: { bgcolor: CLEAR, color: style("--soft"), activecolor: style("--accent") },
  });

  const draw = (element, traces, chosen, hasButtons = isWide(element)) => Plotly.react(element, traces,
    { ...layout(element), ...chosen }, { displaylogo: false, displayModeBar: hasButtons && "hover", modeBarButtons: BUTTONS });

  // A chart that stands in the text of a page. Buttons have a margin of their own: they must not hide what is drawn.
  const drawInText = (element, traces, chosen) => draw(element, traces,
    { height: heightOf(element), margin: margins(isWide(element) ? 30 : 10), ...chosen });
  const heightOf = (element) => (isPrinting() ? 230 : Math.min(420, Math.max(280, 0.45 * element.clientWidth)));
  const scale = (title) => ({ ...axis(), automargin: true, title: { text: title, standoff: 12 } });

  function errorBars(middle, low, high, look = {}) {
    const reach = (ends, sign) => middle.map((value, place) => (ends[place] === null ? 0 : sign * (ends[place] - value)));
    return { type: "data", symmetric: false, array: reach(high, 1), arrayminus: reach(low, -1), thickness: 1, width: 3, ...look };
  }

  // Between two lines, where both are numbers.
  function band(x, low, high, colour) {
    const places = x.map((_, place) => place).filter((place) => low[place] !== null && high[place] !== null);
    const back = [...places].reverse();
    return {
      x: [...places, ...back].map((place) => x[place]),
      y: [...places.map((place) => low[place]), ...back.map((place) => high[place])],
      mode: "lines", fill: "toself", fillcolor: seeThrough(colour, darkness.matches && !isPrinting() ? 0.3 : 0.15), line: { width: 0 }, hoverinfo: "skip",
    };
  }

  // A logarithmic axis has no place for 0: a band that goes so far down goes to the lower end of what is shown.
  const downTo = (bottom, { y, ...others }) => ({ ...others, y: y.map((value) => Math.max(value, bottom)) });

  // The ends of a logarithmic axis, with some room.
  function logRange(least, most) {
    const [low, high] = [least, most].map(Math.log10);
    const margin = Math.max(0.05, 0.07 * (high - low));
    return [low - margin, high + margin];
  }

  // State ---------------------------------------------------------------------------------------------

  function onLook(show) {
    let waiting;
    addEventListener("resize", () => {
      clearTimeout(waiting);
      waiting = setTimeout(show, PAUSE);
    });
    darkness.addEventListener("change", show);
    // Paper is light and narrow: all is drawn again for it, and afterwards for the screen.
    addEventListener("beforeprint", () => {
      root.dataset.print = "";
      show();
    });
    addEventListener("afterprint", () => {
      delete root.dataset.print;
      show();
    });
  }

  const words = () => new URLSearchParams(location.hash.slice(1));

  // Put words into the address; a list is a word said several times, and what is empty is left out.
  function say(state) {
    const said = new URLSearchParams();
    for (const [name, value] of Object.entries(state)) {
      for (const one of [value].flat()) if (one !== undefined && one !== "") said.append(name, one);
    }
    history.replaceState(null, "", `#${said}`);
  }

  // All that is shown follows from the state. `settled` makes of anything that an address may ask for a state that can
  // be shown; `said` is what of it the address should hold. Returns the function that changes the state.
  function keepState(settled, show, said = (state) => state) {
    const read = () => settled({ ...Object.fromEntries(words()), hide: words().getAll("hide") });
    let state = read();
    addEventListener("hashchange", () => show(state = read()));
    onLook(() => show(state));
    const change = (changes) => {
      state = settled({ ...state, ...(typeof changes === "function" ? changes(state) : changes) });
      say(said(state));
      show(state);
    };
    return { change, start: () => show(state) };
  }

  // Controls ------------------------------------------------------------------------------------------

  function fillOptions(name, options) {
    for (const select of findAll(`[data-choice="${name}"]`)) {
      select.append(...options.map(([value, text]) => make("option", text, { value })));
    }
  }

  // `also` says what else changes with a choice.
  function listen(change, also = () => ({})) {
    for (const select of findAll("[data-choice]")) {
      const name = select.dataset.choice;
      select.addEventListener("change", () => change({ ...also(name, select.value), [name]: select.value }));
    }
    for (const form of findAll("form")) form.addEventListener("submit", (event) => event.preventDefault());
    find("[data-skip]").addEventListener("click", (event) => {
      event.preventDefault();
      find("#main").focus();
    });
  }

  // Parts that unfold, marked by data-<name>: the one that was opened last is in the address. `drawOpen` draws the
  // charts of all that are open, which have no size before.
  function unfold(name, drawOpen) {
    const parts = findAll(`details[data-${name}]`);
    const follow = () => {
      const part = parts.find(({ dataset }) => dataset[name] === words().get(name));
      if (!part) return;
      part.open = true;
      part.scrollIntoView({ block: "start" });
    };
    for (const part of parts) {
      part.addEventListener("toggle", () => {
        if (part.open) say({ [name]: part.dataset[name] });
        drawOpen();
      });
    }
    addEventListener("hashchange", follow);
    onLook(drawOpen);
    follow();
    drawOpen(); // what is open from the start
  }

  function fillTabs(views, change) {
    document.body.classList.add("tabbed");
    find('[role="tablist"]').hidden = false;
    const tabs = views.map((view) => find(`#tab-${view}`));
    tabs.forEach((tab, place) => {
      tab.addEventListener("click", () => change({ view: views[place] }));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = (place + step + tabs.length) % tabs.length;
        change({ view: views[next] });
        tabs[next].focus();
      });
    });
  }

  function showTabs(views, shown) {
    for (const tab of findAll('[role="tab"]')) {
      const view = tab.getAttribute("aria-controls");
      const isShown = view === shown;
      tab.hidden = !views.includes(view);
      tab.setAttribute("aria-selected", isShown);
      tab.tabIndex = isShown ? 0 : -1;
      find(`#${view}`).hidden = !isShown && !isPrinting();
    }
  }

  // Lines that can be switched on and off, by name.
  function fillSeries(looks, change) {
    for (const [name, look] of Object.entries(looks)) {
      const label = make("label");
      const box = make("input", "", { type: "checkbox", value: name });
      box.addEventListener("change", () => change(({ hide }) => {
        const others = hide.filter((hidden) => hidden !== name);
        return { hide: box.checked ? others : [...others, name] };
      }));
      label.append(box, swatch(look), make("span", look.title ?? name));
      find("#algorithms").append(label);
    }
  }

  function swatch(look) {
    const drawn = (tag, attributes) =>
      withAttributes(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes);
    const svg = drawn("svg", { width: 26, height: 8, "aria-hidden": true });
    svg.append(drawn("line", { x1: 0, x2: 26, y1: 4, y2: 4, "stroke-width": (look.width ?? 1.8) + 0.6,
      "stroke-dasharray": look.dashes === "solid" ? "none" : look.dashes.replace(/px/g, "") }));
    return svg;
  }

  function showSeries(hide, isStored, colourOf) {
    for (const box of findAll("#algorithms input")) {
      const label = box.parentElement;
      box.disabled = !isStored(box.value);
      box.checked = !box.disabled && !hide.includes(box.value);
      label.classList.toggle("missing", box.disabled);
      label.title = box.disabled ? "not stored for what is chosen" : "";
      label.querySelector("line").style.stroke = colourOf(box.value);
    }
  }

  // Tables --------------------------------------------------------------------------------------------

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

  // `ask` is called with a table and how it should be sorted.
  function fillTitles(ask) {
    for (const table of findAll("table.sortable")) {
      [...table.tHead.rows[0].cells].forEach((title, place) => {
        const button = make("button", title.textContent, { type: "button" });
        title.replaceChildren(button);
        button.addEventListener("click", () =>
          ask(table, (title.getAttribute("aria-sort") === "ascending" ? -1 : 1) * (place + 1)));
      });
    }
  }

  return { axis, band, data, digits, downTo, draw, drawInText, errorBars, fillOptions, fillSeries, fillTabs, fillTitles, find, findAll,
    heightOf, isPrinting, isWide, keepState, listen, logarithmic, logRange, make, margins, onLook, plain, readable, say, scale, seeThrough, showSeries, showTabs,
    sortTable, style, unfold, words };
})();
