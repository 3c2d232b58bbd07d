"use strict";
// Shows /status.json, asked once a second while somebody looks. Every text of it
// becomes a text node, never markup.
const LEVELS = {GOOD: "good", WARNING: "warning", BAD: "bad"};
const MOST_POINTS = 480;
const SHOWN_BOXES = 12;
let points = [];
let answered = 0;        // When the newest answer came, by this browser's clock.
let ageThen = 0;         // How old its report was.
let incarnation = "";    // Of the process that answered.
let failures = 0;
let timer = 0;
// What was counted last, by name: how much, when, and how fast it grew before.
const counted = {tables: new Map(), slices: new Map()};

const at = (id) => document.getElementById(id);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function seconds(value) {
  const whole = Math.round(value);
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole % 3600 / 60)} min`;
}

function clock(unixSeconds) {
  return new Date(unixSeconds * 1000).toLocaleTimeString([], {hour12: false});
}

function short(value) {
  if (value >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

function showFigures(figures) {
  at("figures").replaceChildren(...figures.map((figure) => {
    const card = element("div", undefined, `figure ${LEVELS[figure.level]}`);
    card.append(element("span", figure.name), element("b", figure.value),
                element("span", figure.note));
    return card;
  }));
}

function showProcesses(page) {
  at("processes").replaceChildren(...page.processes.map((process) => {
    const row = element("tr", undefined, LEVELS[process.level]);
    const last = element("td", process.figures);
    for (const wait of process.waits) last.append(element("small", wait));
    row.append(...[process.name, process.state, process.heard, process.generation,
                   process.host, process.address].map((text) => element("td", text)),
               last);
    return row;
  }));
  at("left-out").textContent = page.processes_left_out > 0
      ? `and ${page.processes_left_out} more` : "";
}

function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 999.5 && unit + 1 < units.length) {
    value /= 1000;
    unit += 1;
  }
  return `${Number(value.toPrecision(value < 10 ? 2 : 3))} ${units[unit]}`;
}

// How much each count has grown a second since the report before; of the first
// report nothing is known. `entries`: pairs of a name and its count.
function ratesOf(kind, entries, when) {
  const next = new Map();
  for (const [name, count] of entries) {
    const was = counted[kind].get(name);
    const isNew = !was || count < was.count || when < was.when;
    const rate = isNew ? undefined
        : when > was.when ? (count - was.count) / (when - was.when) : was.rate;
    next.set(name, {count, when, rate});
  }
  counted[kind] = next;
  return (name) => next.get(name).rate;
}

function rateCell(rate) {
  return element("td", rate === undefined ? "–" : short(rate));
}

function showSlices(slices, when) {
  at("slices-section").hidden = slices.length === 0;
  const nameOf = (slice) => `${slice.server} ${slice.name}`;
  const rate = ratesOf("slices", slices.map(
      (slice) => [nameOf(slice), slice.named_blocks]), when);
  at("slices").replaceChildren(...slices.map((slice) => {
    const row = element("tr");
    row.append(element("td", slice.name), element("td", slice.server),
               element("td", slice.named_blocks.toLocaleString("en")),
               rateCell(rate(nameOf(slice))));
    return row;
  }));
}

function showTables(tables, when) {
  at("tables-section").hidden = tables.length === 0;
  const rates = ratesOf("tables", tables.map(
      (table) => [table.variable, table.looked_up]), when);
  const rate = (table) => rates(table.variable);
  const hottest = tables.slice().sort(
      (a, b) => (rate(b) ?? 0) - (rate(a) ?? 0) || b.looked_up - a.looked_up);
  at("tables").replaceChildren(...hottest.map((table) => {
    const row = element("tr", undefined, table.warning ? "warning" : "good");
    const name = element("td", table.variable);
    if (table.warning) name.append(element("small", table.warning));
    row.append(name,
               ...[table.rows, table.capacity, table.created, table.evicted,
                   table.ignored, table.looked_up].map(
                       (count) => element("td", count.toLocaleString("en"))),
               rateCell(rate(table)));
    return row;
  }));
}

function showEvents(events) {
  at("no-events").hidden = events.length > 0;
  at("events").replaceChildren(...events.slice().reverse().map((event) => {
    const item = element("li", undefined, LEVELS[event.level]);
    item.append(element("time", clock(event.unix_seconds)), event.text);
    return item;
  }));
}

const LOADS = {BUSY: "busy", WAITING: "waiting", IDLE: "idle"};

// "busy 37 %", "waiting, 62 % for input", and what a server moves.
function loadText(process) {
  const parts = [];
  if (LOADS[process.load] === "waiting" && process.input_wait_percent >= 50) {
    parts.push(`waiting, ${Math.round(process.input_wait_percent)} % for input`);
  } else if (LOADS[process.load]) {
    parts.push(`${LOADS[process.load]} ${Math.round(process.busy_percent)} %`);
  }
  if (process.is_server && process.bytes_per_second !== undefined) {
    parts.push(`${bytes(process.bytes_per_second)}/s`);
  }
  return parts.join(" · ");
}

// A box with a bar in it as long as the process is busy, or waits for input.
function box(process, x, y) {
  const parts = [drawn("rect", {class: `box ${LEVELS[process.level]}`, x, y,
                                width: 200, height: 38, rx: 4})];
  if (LOADS[process.load]) {
    const share = process.input_wait_percent >= 50 ? process.input_wait_percent
                                                   : process.busy_percent;
    parts.push(drawn("rect", {class: `load ${LOADS[process.load]}`, x: x + 2, y: y + 33,
                              width: 196 * Math.min(1, Math.max(.02, share / 100)), height: 4}));
  }
  parts.push(drawn("text", {x: x + 8, y: y + 14}, `${process.name} · ${process.state}`),
             drawn("text", {x: x + 8, y: y + 28}, loadText(process)));
  return parts;
}

// Workers at the left, servers at the right; the first few of many.
function showTopology(processes) {
  const byName = processes.slice().sort(
      (a, b) => a.name.localeCompare(b.name, "en", {numeric: true}));
  const sides = [byName.filter((process) => !process.is_server),
                 byName.filter((process) => process.is_server)];
  const shown = sides.map((side) => side.slice(0, SHOWN_BOXES));
  const rows = Math.max(1, ...shown.map((side) => side.length));
  const more = sides.some((side) => side.length > SHOWN_BOXES);
  const height = 44 * rows + (more ? 20 : 0) + 6;
  const svg = at("topology");
  svg.setAttribute("viewBox", `0 0 640 ${height}`);
  const y = (side, i) => 3 + 44 * (i + (rows - shown[side].length) / 2);
  const most = Math.max(1, ...shown[1].map((server) => server.bytes_per_second ?? 0));
  const parts = [];
  shown[0].forEach((_, w) => shown[1].forEach((server, s) => parts.push(drawn("line", {
    class: "link", x1: 230, x2: 410, y1: y(0, w) + 19, y2: y(1, s) + 19,
    "stroke-width": (1 + 5 * (server.bytes_per_second ?? 0) / most).toFixed(1)}))));
  shown.forEach((side, which) => side.forEach((process, i) => parts.push(
      ...box(process, which === 0 ? 30 : 410, y(which, i)))));
  sides.forEach((side, which) => {
    if (side.length <= SHOWN_BOXES) return;
    parts.push(drawn("text", {x: which === 0 ? 30 : 410, y: height - 6},
                     `and ${side.length - SHOWN_BOXES} more`));
  });
  svg.replaceChildren(...parts);
}

// One chart: `series` are pairs of a name and the points' field.
function chart(title, series, text = short) {
  const width = 320, height = 110, left = 46, bottom = 16;
  const figure = element("figure");
  figure.append(element("figcaption", title));
  const svg = drawn("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title});
  const known = series.map(([, field]) => points.filter(
      (point) => Number.isFinite(point[field])));
  const values = series.flatMap(([, field], i) => known[i].map((point) => point[field]));
  if (values.length === 0) {
    svg.append(drawn("text", {x: left, y: height / 2}, "nothing was measured yet"));
    figure.append(svg);
    return figure;
  }
  const most = Math.max(...values), least = Math.min(0, ...values);
  const from = points[0].unix_seconds, to = points[points.length - 1].unix_seconds;
  const x = (point) => left + (width - left - 4) * (to > from ? (point.unix_seconds - from) / (to - from) : 1);
  const y = (value) => 6 + (height - bottom - 6) * (most > least ? (most - value) / (most - least) : .5);
  svg.append(drawn("line", {class: "axis", x1: left, x2: width, y1: height - bottom, y2: height - bottom}),
             drawn("text", {x: 0, y: 14}, text(most)),
             drawn("text", {x: 0, y: height - bottom}, text(least)),
             drawn("text", {x: left, y: height - 3}, clock(from)),
             drawn("text", {x: width - 4, y: height - 3, "text-anchor": "end"}, clock(to)));
  series.forEach(([, field], i) => {
    // One point is a dot.
    const path = known[i].map((point) => `${x(point).toFixed(1)},${y(point[field]).toFixed(1)}`);
    if (path.length === 1) path.push(path[0]);
    svg.append(drawn("polyline", {class: i === 0 ? "curve" : "curve second",
                                  "stroke-linecap": "round", points: path.join(" ")}));
  });
  const newest = series.map(([name, field], i) => known[i].length === 0 ? "" :
      `${name} ${text(known[i][known[i].length - 1][field])}`);
  figure.firstChild.textContent = `${title}: ${newest.filter((text) => text).join(", ")}`;
  figure.append(svg);
  return figure;
}

function showCurves() {
  at("curves").replaceChildren(
      chart("Loss", [["now", "loss"]]),
      chart("Examples a second", [["now", "examples_per_second"]]),
      chart("Staleness in pushes", [["half at most", "staleness_p50"],
                                    ["99 % at most", "staleness_p99"]]),
      chart("Memory of the fullest server", [["now", "memory_bytes"]], bytes));
}

function show(page) {
  document.title = `${page.job || "paramd"}: ${page.verdict}`;
  at("job").textContent = page.job ? `paramd · ${page.job}` : "paramd";
  at("verdict").textContent = page.verdict;
  at("verdict").className = LEVELS[page.level];
  at("seen-by").textContent = `as ${page.seen_by} sees it, ${page.build}`;
  points.push(...page.points);
  if (points.length > MOST_POINTS) points = points.filter(
      (_, i) => i >= MOST_POINTS / 2 || i % 2 === 0);
  showFigures(page.figures);
  showTopology(page.processes);
  showCurves();
  showProcesses(page);
  const when = points.length > 0 ? points[points.length - 1].unix_seconds : 0;
  showTables(page.tables, when);
  showSlices(page.slices, when);
  showEvents(page.events);
}

// A page whose process is gone must not look alive.
function showAge() {
  if (answered === 0) return;
  const age = ageThen + (Date.now() - answered) / 1000;
  const isOld = failures > 0 || age > 5;
  at("age").textContent = failures > 0
      ? `no answer: these figures are ${seconds(age)} old` : `${seconds(age)} old`;
  at("age").className = isOld ? "bad" : "";
}

async function ask() {
  clearTimeout(timer);
  if (document.hidden) return;
  const newest = points.length > 0 ? points[points.length - 1].number : 0;
  try {
    const answer = await fetch(`status.json?since=${newest}`, {signal: AbortSignal.timeout(5000)});
    if (!answer.ok) throw new Error(await answer.text());
    const page = await answer.json();
    if (page.incarnation !== incarnation) {
      // Another process has taken the place of the one that was asked before,
      // and numbers its points anew.
      incarnation = page.incarnation;
      if (newest > 0) {
        points = [];
        return ask();
      }
    }
    show(page);
    answered = Date.now();
    ageThen = page.age_seconds;
    failures = 0;
  } catch (error) {
    failures += 1;
    if (answered === 0) at("age").textContent = "no answer yet";
  }
  showAge();
  timer = setTimeout(ask, 1000 * Math.min(10, 2 ** Math.max(0, failures - 1)));
}

document.addEventListener("visibilitychange", ask);
setInterval(showAge, 1000);
ask();
