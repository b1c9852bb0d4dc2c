"use strict";
// Figures that can be explored, drawn from the page's data; a point shows the cell behind it.

const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 360, HEIGHT = 250, WIDE = 760;
const MARGIN = { left: 50, right: 12, top: 26, bottom: 40 };

function element(name, attributes = {}, parent = null, text = "") {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

const isLine = (series) => ["-", "--", ":"].includes(series.style);
const color = (series) => `var(--${series.color})`;

// A linear or logarithmic scale, from values to pixels.
function scale(values, log, from, to, zero) {
  let low = Math.min(...values), high = Math.max(...values);
  if (!isFinite(low)) { low = log ? 1 : 0; high = log ? 10 : 1; }
  if (zero && !log) low = Math.min(0, low);
  if (low === high) { low = log ? low / 2 : low - 0.5; high = log ? high * 2 : high + 0.5; }
  const f = log ? Math.log10 : (v) => v;
  const pad = 0.05 * (f(high) - f(low));
  const a = f(low) - (zero && !log && low === 0 ? 0 : pad), b = f(high) + pad;
  const place = (v) => from + ((f(v) - a) / (b - a)) * (to - from);
  return { place, from, to, ticks: log ? logTicks(a, b) : ticks(a, b) };
}

function ticks(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const places = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) places.push(i * step);
  return places;
}

function logTicks(low, high) {
  const choices = high - low > 3 ? [1] : high - low > 1.2 ? [1, 3] : [1, 2, 3, 5];
  const places = [];
  for (let e = Math.floor(low); e <= Math.ceil(high); e++)
    for (const m of choices) {
      const at = Math.log10(m) + e;
      if (at >= low && at <= high) places.push(m * 10 ** e);
    }
  return places;
}

const short = (v) => Number(v.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });

function symbol(style, x, y, r) {
  const p = (...points) => "M" + points.map(([dx, dy]) => `${x + dx * r} ${y + dy * r}`).join("L") + "Z";
  if (style === "s") return p([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]);
  if (style === "^") return p([0, -1.15], [1.05, 0.85], [-1.05, 0.85]);
  if (style === "v") return p([0, 1.15], [1.05, -0.85], [-1.05, -0.85]);
  if (style === "D") return p([0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]);
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
}

function draw(figure) {
  const chart = data.charts[figure.dataset.chart];
  const view = figure.querySelector(".explore");
  const hidden = new Set();
  const panels = document.createElement("div");
  panels.className = "panels";
  const share = `calc((100% - ${chart.columns - 1}rem) / ${chart.columns})`;
  panels.style.gridTemplateColumns = `repeat(auto-fit, minmax(max(min(100%, 15rem), ${share}), 1fr))`;
  const narrow = figure.clientWidth < 560;
  const redraw = () => panels.replaceChildren(...chart.panels.map((panel) => drawPanel(panel, hidden, narrow)));
  view.append(legend(chart, hidden, redraw), panels);
  redraw();
}

function legend(chart, hidden, redraw) {
  const box = document.createElement("div");
  box.className = "legend";
  const named = new Map();
  for (const panel of chart.panels)
    for (const series of panel.series) if (series.name && !named.has(series.name)) named.set(series.name, series);
  for (const [name, series] of named) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    const key = element("svg", { viewBox: "0 0 24 16", "aria-hidden": "true" });
    drawKey(key, series);
    button.append(key, name);
    button.onclick = () => {
      hidden.has(name) ? hidden.delete(name) : hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      hide();
      redraw();
    };
    box.append(button);
  }
  return box;
}

const DASH = { "-": "none", "--": "6 4", ":": "1.5 3" };

function drawKey(key, series) {
  if (isLine(series))
    element("path", { d: "M1 8H23", stroke: color(series), "stroke-width": 2, "stroke-dasharray": DASH[series.style] }, key);
  else
    element("path", { d: symbol(series.style, 12, 8, 5), fill: series.hollow ? "none" : color(series), stroke: color(series), "stroke-width": 1.5 }, key);
}

function drawPanel(panel, hidden, narrow) {
  const width = panel.ticks.length && !narrow ? WIDE : WIDTH;
  const slanted = panel.ticks.length > (narrow ? 3 : 6);
  const bottom = slanted ? 74 : MARGIN.bottom;
  const shown = panel.series.filter((s) => !hidden.has(s.name) && s.points.length);
  const all = shown.flatMap((s) => s.points).filter((p) => p[0] !== null && p[1] !== null);
  const logX = panel.log.includes("x"), logY = panel.log.includes("y");
  const usable = all.filter((p) => !(logX && p[0] <= 0) && !(logY && p[1] <= 0));
  const xs = panel.ticks.length ? [-0.45, panel.ticks.length - 0.55] : usable.map((p) => p[0]);
  const ys = usable.map((p) => p[1]);
  for (const mark of panel.marks) (mark.axis === "x" ? xs : ys).push(mark.at);
  const x = scale(xs, logX, MARGIN.left, width - MARGIN.right, false);
  const y = scale(ys, logY, HEIGHT - bottom, MARGIN.top, panel.zero && !panel.ticks.length);
  const svg = element("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, tabindex: 0, role: "img",
    style: `max-width: ${1.5 * width}px`, // a panel alone in its row would have giant letters
    "aria-label": `${panel.title}: ${panel.y} against ${panel.x || "sampler"}. Arrow keys move from point to point.` });
  axes(svg, panel, x, y, width, bottom, slanted);
  const points = [];
  for (const series of shown) isLine(series) ? drawLine(svg, series, x, y) : drawPoints(svg, series, x, y, usable, points);
  element("text", { x: MARGIN.left, y: 16 }, svg, panel.title);
  explore(svg, points, width);
  return svg;
}

function axes(svg, panel, x, y, width, bottom, slanted) {
  const base = HEIGHT - bottom, right = width - MARGIN.right;
  const grid = element("g", { stroke: "var(--rule)", "stroke-width": 1 }, svg);
  for (const at of y.ticks) {
    element("path", { d: `M${MARGIN.left} ${y.place(at)}H${right}` }, grid);
    element("text", { class: "quiet", x: MARGIN.left - 5, y: y.place(at) + 3.5, "text-anchor": "end" }, svg, short(at));
  }
  const named = panel.ticks.length ? panel.ticks : x.ticks.map((at) => [at, short(at)]);
  for (const [at, name] of named) {
    const place = x.place(at);
    const turn = slanted ? { transform: `rotate(-35 ${place} ${base + 12})`, "text-anchor": "end" } : { "text-anchor": "middle" };
    if (!panel.ticks.length) element("path", { d: `M${place} ${base}v4` }, grid);
    element("text", { class: "quiet", x: place, y: base + 15, ...turn }, svg, name);
  }
  for (const mark of panel.marks) {
    const d = mark.axis === "x" ? `M${x.place(mark.at)} ${MARGIN.top}V${base}` : `M${MARGIN.left} ${y.place(mark.at)}H${right}`;
    element("path", { d, stroke: "var(--grey)", "stroke-dasharray": "4 3", fill: "none" }, svg);
    if (mark.axis === "x") element("text", { class: "quiet", x: x.place(mark.at) + 3, y: base - 5 }, svg, mark.label);
  }
  element("text", { class: "quiet", x: (MARGIN.left + right) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, svg, panel.x);
  element("text", { class: "quiet", transform: `translate(11 ${(MARGIN.top + base) / 2}) rotate(-90)`, "text-anchor": "middle" }, svg, panel.y);
}

function drawLine(svg, series, x, y) {
  const d = series.points.map((p, i) => `${i ? "L" : "M"}${x.place(p[0]).toFixed(1)} ${y.place(p[1]).toFixed(1)}`).join("");
  element("path", { d, fill: "none", stroke: color(series), "stroke-width": 1.5, "stroke-dasharray": DASH[series.style] }, svg);
}

function drawPoints(svg, series, x, y, usable, points) {
  const group = element("g", { stroke: color(series), fill: series.hollow ? "none" : color(series) }, svg);
  for (const point of series.points) {
    if (!usable.includes(point)) continue;
    const [vx, vy, error] = point, px = x.place(vx), py = y.place(vy);
    const under = y.place(vy - error), low = under <= y.from ? under : y.from;
    const high = Math.max(y.place(vy + error), y.to);
    if (error && Math.abs(low - high) > 5) element("path", { d: `M${px} ${low}V${high}`, fill: "none" }, group);
    element("path", { d: symbol(series.style, px, py, 3.4) }, group);
    points.push({ px, py, series, point });
  }
}

// The pointer or the arrow keys select a point; its cell is shown beside it.
function explore(svg, points, width) {
  const ring = element("circle", { r: 7, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5, visibility: "hidden" }, svg);
  points.sort((a, b) => a.px - b.px);
  let at = -1;
  const choose = (i) => {
    at = i;
    const { px, py, series, point } = points[i];
    ring.setAttribute("cx", px);
    ring.setAttribute("cy", py);
    ring.setAttribute("visibility", "visible");
    const box = svg.getBoundingClientRect(), k = box.width / width;
    show(describe(series, point), box.left + px * k, box.top + py * k);
  };
  const leave = () => { ring.setAttribute("visibility", "hidden"); hide(); };
  const near = (event) => {
    const box = svg.getBoundingClientRect(), k = width / box.width;
    const mx = (event.clientX - box.left) * k, my = (event.clientY - box.top) * k;
    let best = -1, nearest = (28 * k) ** 2;
    points.forEach(({ px, py }, i) => {
      const square = (px - mx) ** 2 + (py - my) ** 2;
      if (square < nearest) { best = i; nearest = square; }
    });
    best < 0 ? leave() : choose(best);
  };
  svg.addEventListener("pointermove", near);
  svg.addEventListener("pointerdown", near);
  svg.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") leave(); });
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    if (!points.length) return;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      event.preventDefault();
      const step = event.key === "ArrowRight" ? 1 : -1;
      choose((at + step + points.length) % points.length);
    }
    if (event.key === "Escape") leave();
  });
}

function describe(series, point) {
  const list = document.createElement("dl");
  const add = (name, value) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = value;
    list.append(dt, dd);
  };
  if (series.name) add("series", series.name);
  if (typeof point[3] === "number") {
    const cell = data.cells[point[3]];
    data.fields.forEach((field, i) => {
      const value = cell[i];
      if (field === "± EJD" || value === null || value === "") return;
      if (field === "EJD") add("EJD", `${value} ± ${Number(cell[i + 1].toPrecision(2))}`);
      else add(field, value);
    });
  } else {
    if (point[3]) add("point", point[3]);
    add("x, y", `${short(point[0])}, ${short(point[1])}${point[2] ? ` ± ${short(point[2])}` : ""}`);
  }
  return list;
}

function show(content, x, y) {
  tip.replaceChildren(content);
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), wide = document.documentElement.clientWidth;
  const left = x + 14 + box.width > wide ? x - 14 - box.width : x + 14;
  tip.style.left = `${Math.max(8, Math.min(left, wide - box.width - 8))}px`;
  const below = y + 14 + box.height > innerHeight ? y - 14 - box.height : y + 14;
  tip.style.top = `${Math.max(8, below)}px`;
}

function hide() { tip.hidden = true; }

for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const buttons = figure.querySelectorAll(".views button");
  for (const button of buttons)
    button.onclick = () => {
      const explore = button.dataset.view === "explore";
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      if (explore && !figure.querySelector(".panels")) draw(figure);
      figure.querySelector(".explore").hidden = !explore;
      figure.querySelector(".figure").hidden = explore;
      hide();
    };
}

for (const cell of document.querySelectorAll("td[data-detail]")) {
  const open = () => {
    const box = cell.getBoundingClientRect();
    show(document.createTextNode(cell.dataset.detail), box.left + box.width / 2, box.bottom - 10);
  };
  cell.addEventListener("pointerenter", open);
  cell.addEventListener("focus", open);
  cell.addEventListener("pointerleave", hide);
  cell.addEventListener("blur", hide);
}

addEventListener("scroll", hide, { passive: true, capture: true });
addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll("details")) fold.open = true; });
if (matchMedia("(max-width: 34rem)").matches) document.querySelector("nav details").open = false;

for (const box of document.querySelectorAll(".scroll")) {
  const mark = () => {
    const hidden = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.parentElement.classList.toggle("more", hidden > 1);
  };
  mark();
  box.addEventListener("scroll", mark, { passive: true });
  addEventListener("resize", mark);
}
