"use strict";

// The exact bias, an estimate of it and their difference, drawn where the states are.
const Maps = (() => {
  const QUANTITIES = ["Exact bias", "Estimate", "Difference"];
  const LARGEST_CELL = { alone: 44, several: 34 };
  const GAP = 26, HEADING = 26, TITLE = 34, BAR = 66; // pixels
  const FINE = 100; // differences this many times smaller than the range of the bias still have a colour

  const { plain, style } = Common;
  const digits = (number) => Common.digits(number, "diverged");

  const decoded = new Map();

  // The stored numbers, all checkpoints in a row.
  function valuesOf(frames) {
    if (!decoded.has(frames)) {
      const bytes = Uint8Array.from(atob(frames.values), (letter) => letter.charCodeAt(0));
      decoded.set(frames, new Float32Array(bytes.buffer));
    }
    return decoded.get(frames);
  }

  // What is drawn: three numbers for each state.
  function quantities(map, state) {
    const frames = map.frames[state.estimate];
    const count = map.bias.length;
    const values = valuesOf(frames).subarray(state.frame * count, (state.frame + 1) * count);
    const shift = state.constant === "without" ? frames.shifts[state.frame] ?? 0 : 0;
    const estimate = Array.from(values, (value) => value - shift);
    return [map.bias, estimate, estimate.map((value, place) => value - map.bias[place])];
  }

  function rangeOf(map) {
    const sorted = [...map.bias].sort((one, other) => one - other);
    const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
    const least = sorted[0], most = sorted.at(-1), span = most - least || 1;
    return { least, most, span, middle: at(0.9) - at(0.1) || span };
  }

  // What lies far outside must not hide all else, so colours follow the inverse hyperbolic sine.
  function scales(map, isWide) {
    const { least, most, span, middle } = rangeOf(map);
    const value = (number) => Math.asinh(number / middle);
    const difference = (number) => Math.asinh((FINE * number) / span);
    const round = 10 ** Math.floor(Math.log10(span));
    const small = isWide ? [-round, -round / 10, 0, round / 10, round] : [-round, 0, round];
    const bar = (title, ticks, place) => ({ title: { text: title, side: "top", font: { size: 12 } },
      tickvals: ticks.map(place), ticktext: ticks.map((tick) => digits(Number(tick.toPrecision(isWide ? 3 : 2)))), tickangle: 0 });
    const known = least < 0 && most > 0 ? [least, 0, most] : [least, most];
    return {
      value, difference,
      coloraxis: { colorscale: "Cividis", cmin: value(least), cmax: value(most), colorbar: bar("Bias and estimate", known, value) },
      coloraxis2: { colorscale: [[0, "#0072B2"], [0.5, style("--panel")], [1, "#D55E00"]], cmin: -difference(span),
        cmax: difference(span), colorbar: bar("Difference", small, difference) },
    };
  }

  // Numbers of a panel on its rows and columns; null where no state is.
  function spread(map, panel, shape, numbers) {
    const grid = Array.from({ length: shape.height }, () => Array(shape.width).fill(null));
    map.panels.forEach((own, place) => {
      if (own === panel) grid[map.rows[place]][map.columns[place]] = numbers[place];
    });
    return grid;
  }

  // Panels lie side by side, quantities below each other; a single panel has its quantities side by side if it can.
  function arrangement(map, shape, width) {
    const several = map.titles.length > 1;
    const beside = several ? map.titles.length : width > 640 || shape.width < 1.5 * shape.height ? QUANTITIES.length : 1;
    const rows = (map.titles.length * QUANTITIES.length) / beside;
    const most = several ? LARGEST_CELL.several : LARGEST_CELL.alone;
    const cell = Math.max(4, Math.min(most, Math.floor((width - GAP * (beside - 1)) / beside / shape.width)));
    const top = HEADING + (several ? TITLE : 0);
    const size = { x: cell * shape.width, y: cell * shape.height };
    const height = rows * (size.y + HEADING) + top - HEADING;
    const corner = (number) => ({ x: (number % beside) * (size.x + GAP),
      y: height - top - Math.floor(number / beside) * (size.y + HEADING) });
    return { several, size, height, corner, right: beside * (size.x + GAP) - GAP };
  }

  function draw(element, map, state) {
    const width = element.clientWidth - 24;
    const shape = { width: Math.max(...map.columns) + 1, height: Math.max(...map.rows) + 1 };
    const { several, size, height, corner, right } = arrangement(map, shape, width);
    const { value, difference, coloraxis, coloraxis2 } = scales(map, width > 640);
    // Bars as long as there is room for, the second one below the differences.
    const length = Math.min(260, Math.max(right, 300) / 2 - 30);
    const bar = { orientation: "h", thickness: 10, lenmode: "pixels", len: length, y: -10 / height, yanchor: "top",
      xanchor: "left", outlinewidth: 0, xpad: 0, ypad: 0, tickfont: { size: 11 } };
    Object.assign(coloraxis.colorbar, { ...bar, x: 14 / width }); // labels must not leave the picture
    Object.assign(coloraxis2.colorbar, { ...bar, x: (Math.max(right, 300) - length - 14) / width });
    const layout = {
      height: height + BAR, margin: { l: 12, r: 12, t: 0, b: BAR }, coloraxis, coloraxis2, annotations: [],
      dragmode: false,
    };
    const label = (text, at, size) => layout.annotations.push({ text, x: at.x / width, y: at.y / height,
      xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false, align: "left", font: { size } });
    const traces = quantities(map, state).flatMap((numbers, quantity) => map.titles.map((title, panel) => {
      const number = quantity * map.titles.length + panel;
      const place = number ? String(number + 1) : "";
      const at = corner(number);
      const hidden = { visible: false, fixedrange: true };
      layout[`xaxis${place}`] = { ...hidden, anchor: `y${place}`, domain: [at.x / width, (at.x + size.x) / width] };
      layout[`yaxis${place}`] = { ...hidden, anchor: `x${place}`, autorange: "reversed",
        domain: [Math.max(0, (at.y - size.y) / height), at.y / height] };
      if (panel === 0) label(QUANTITIES[quantity], { x: at.x, y: at.y + (several && !quantity ? TITLE : 0) }, 13);
      if (several && quantity === 0) label(plain(title).replace(", ", ",<br>"), at, width > 640 ? 12 : 9);
      const shown = spread(map, panel, shape, numbers);
      const colour = quantity === 2 ? difference : value;
      return { type: "heatmap", name: QUANTITIES[quantity], xaxis: `x${place}`, yaxis: `y${place}`,
        coloraxis: quantity === 2 ? "coloraxis2" : "coloraxis", xgap: 1, ygap: 1, hoverongaps: false,
        z: shown.map((row) => row.map((entry) => (Number.isFinite(entry) ? colour(entry) : null))),
        customdata: shown,
        text: shown.map((row) => row.map((entry) => (entry === null ? "" : digits(entry)))),
        hovertemplate: "row %{y}, column %{x}: %{text}<extra></extra>" };
    }));
    return Common.draw(element, traces, layout, false);
  }

  // The same in words.
  function inWords(map, state) {
    const frames = map.frames[state.estimate];
    const [, , differences] = quantities(map, state);
    const largest = Math.max(...differences.map(Math.abs));
    const share = (100 * largest) / rangeOf(map).span;
    const said = Number.isFinite(largest)
      ? `largest difference ${digits(largest)}, ${Number(share.toPrecision(2))}% of the range of the bias`
      : "diverged";
    return `after ${stepsAt(frames, state.frame)}: ${said}`;
  }

  const stepsAt = (frames, frame) =>
    `${frames.steps[frame].toLocaleString("en")} of ${frames.steps.at(-1).toLocaleString("en")} steps`;

  return { draw, inWords, stepsAt };
})();
