// Ties the page together: one state, drawn whenever it changes; requests only for what the page cannot know.

import { ask, Latest } from "./api.js";
import { drawChart, percent, steps } from "./chart.js";
import { addressKeeper, copyLink } from "./link.js";
import { MapView, told } from "./map.js";
import { firstState, fromHash, Lattice, snapHeading, toHash } from "./state.js";

const TRUTH_WAIT = 250; // milliseconds that the start must rest before the truth is computed
const element = (id) => document.getElementById(id);

class Panel {
  constructor(run, about, world, lattice, on) {
    Object.assign(this, { run, about, world, lattice });
    const node = element("panel").content.cloneNode(true).firstElementChild;
    this.node = node;
    const seed = about.preset === null ? "" : ` (${about.preset}, seed ${about.seed})`;
    node.querySelector("h2").textContent = `${about.name}${seed}`;
    for (const name of ["readout", "measured", "pointer", "chart", "least", "most"]) this[name] = node.querySelector(`.${name}`);
    this.scale = node.querySelector(".scale canvas").getContext("2d");
    this.map = new MapView(node.querySelector(".map"), world, lattice, { ...on, pointer: (place) => this.point(place) }, `Map of ${about.name}`);
    this.heats = new Latest((found, { start }) => { this.heat = found; this.heatOf = start; on.drawn(this); }, on.fail);
    this.walks = new Latest((found) => { this.walk = found; on.drawn(this); }, on.fail);
    this.on = on;
  }

  parameters({ start, goal, by, alpha, h, seed }) {
    const dial = by === "alpha" ? { alpha } : { horizon: h };
    return { run: this.run, start: start.join(), goal: goal.join(), ...dial, seed };
  }

  ask(state) {
    this.state = state;
    this.heats.ask("heat", { run: this.run, start: state.start.join() });
    this.walks.ask("paths", this.parameters(state));
    this.askTruth(state);
  }

  askTruth(state) {
    const start = state.start.join();
    if (this.truthOf === start && this.truth) return;
    const wanted = state.outline || state.colours !== "learned";
    if (this.asking === start && wanted) return;
    clearTimeout(this.waiting);
    this.abort?.abort();
    [this.truth, this.asking] = [null, null];
    if (!wanted) return;
    this.asking = start;
    this.waiting = setTimeout(async () => {
      this.abort = new AbortController();
      try {
        const found = await ask("truth", { run: this.run, start }, this.abort.signal);
        if (this.asking !== start) return;
        [this.truth, this.truthOf, this.asking] = [found, start, null];
        this.on.drawn(this);
      } catch (error) {
        if (error.name === "AbortError") return;
        this.asking = null;
        this.on.fail(error);
      }
    }, TRUTH_WAIT);
  }

  draw(state) {
    this.state = state;
    this.map.current = state;
    this.map.place(state.start, state.goal);
    const [learned, truth] = [slice(this.heat, state.h), slice(this.truth, state.h)];
    const difference = state.colours === "difference";
    const colours = difference ? this.world.difference_colours : this.world.colours;
    let shown = state.colours === "true" ? truth : learned;
    if (difference && learned && truth) shown = learned.map((value, i) => Math.round(127.5 + (value - truth[i]) / 2));
    else if (difference) shown = null;
    this.map.drawHeat(shown, colours);
    this.map.canvas.classList.toggle("loading", !shown);
    this.map.drawOutline(state.outline && truth ? (goal) => truth[goal] >= 127.5 : null);
    this.drawScale(colours, difference);
    if (this.walk) this.map.drawPaths(this.walk.paths);
    this.tell(state, learned, truth);
  }

  drawScale(colours, difference) {
    if (this.scaleOf === difference) return;
    this.scaleOf = difference;
    const image = this.scale.createImageData(256, 1);
    colours.forEach((colour, i) => image.data.set([...colour, 255], 4 * i));
    this.scale.putImageData(image, 0, 0);
    [this.least.textContent, this.most.textContent] = difference ? ["too pessimistic", "too hopeful"] : ["0 %", "100 %"];
  }

  tell(state, learned, truth) {
    if (!this.walk) return;
    const goal = this.lattice.indexOf(state.goal);
    const curve = this.walk.curve;
    const trueCurve = this.truth ? Array.from({ length: this.truth.horizons }, (_, i) => this.truth.values[i * this.truth.goals + goal] / 255) : null;
    const steered = state.by === "alpha" ? "caution picks" : "counted down from";
    drawChart(this.chart, { curve, truth: trueCurve, h: state.h, chosen: this.walk.horizon, steered });
    const parts = [`Goal ${told(state.goal[0])}, ${told(state.goal[1])} within ${steps(state.h)}: ${percent(curve[state.h - 1])} by what was learned`];
    if (trueCurve) parts[0] += `, truly ${percent(trueCurve[state.h - 1])}`;
    parts.push(outcome(this.walk.paths));
    if (state.by === "alpha") parts.push(`Caution ${state.alpha} takes ${steps(this.walk.horizon)} to be enough`);
    if (learned && truth) parts.push(agreement(learned, truth));
    else if (this.asking) parts.push("Computing the truth …");
    this.readout.textContent = `${parts.join(". ")}.`.replace("….", "…");
  }

  point(place) {
    const near = place && this.lattice.nearest(place, "goal");
    const bytes = slice(this.heat, this.state.h);
    const truth = slice(this.truth, this.state.h);
    if (!near || !bytes) {
      this.pointer.textContent = "\u00a0";
      return;
    }
    const goal = this.lattice.indexOf(near);
    const truly = truth ? `, truly ${percent(truth[goal] / 255)}` : "";
    this.pointer.textContent = `Here, at ${told(near[0])}, ${told(near[1])}: ${percent(bytes[goal] / 255)} within ${steps(this.state.h)}${truly}`;
  }

  async measure(state) {
    const asked = this.parameters(state);
    this.measured.hidden = false;
    this.measured.textContent = "Trying …";
    const found = await ask("success", asked);
    this.measuredFor = JSON.stringify(asked);
    const mean = found.steps === null ? "" : `, in ${Math.round(10 * found.steps) / 10} steps on average`;
    if (found.rollouts === 0) this.measured.textContent = "The start is already at the goal.";
    else if (found.rollouts === 1) this.measured.textContent = found.success ? `Arrives, always: in ${steps(found.steps)}.` : "Never arrives: nothing here is left to chance.";
    else {
      const [low, high] = found.interval.map((share) => Math.round(1000 * share) / 10);
      this.measured.textContent = `Arrives in ${Math.round(1000 * found.success) / 10} % of ${found.rollouts} tries (95 % interval ${low} to ${high} %)${mean}.`;
    }
  }

  forgetMeasured(state) {
    if (JSON.stringify(this.parameters(state)) !== this.measuredFor) this.measured.hidden = true;
  }
}

function slice(array, h) {
  if (!array) return null;
  const row = Math.min(h, array.horizons) - 1;
  return array.values.subarray(row * array.goals, (row + 1) * array.goals);
}

function outcome(paths) {
  const reached = paths.filter((path) => path.reached).length;
  if (paths.length > 1) {
    const lost = paths.filter((path) => path.dead).length;
    return `Of ${paths.length} paths drawn ${reached} arrive${lost ? `, ${lost} end early (×)` : ""}`;
  }
  const taken = paths[0].points.length - 1;
  if (!taken) return "The start is already there";
  return reached ? `The path drawn arrives in ${steps(taken)}` : `The path drawn does not arrive in ${steps(taken)}`;
}

function agreement(learned, truth) {
  let [apart, both, either] = [0, 0, 0];
  learned.forEach((value, i) => {
    apart += Math.abs(value - truth[i]);
    both += value >= 127.5 && truth[i] >= 127.5;
    either += value >= 127.5 || truth[i] >= 127.5;
  });
  const mean = (apart / learned.length / 2.55).toFixed(1);
  const overlap = either ? `; what is reachable agrees to ${percent(both / either)}` : "";
  return `Over all goals learned and true differ by ${mean} points on average${overlap}`;
}

function fail(error) {
  element("message").textContent = error.message;
  element("message").hidden = false;
}

async function main() {
  const world = await ask("world");
  const lattice = new Lattice(world.lattice);
  let state = fromHash(location.hash, world, lattice);
  const keepAddress = addressKeeper();

  const change = (part) => {
    state = { ...state, ...part };
    element("message").hidden = true;
    for (const panel of panels) {
      panel.forgetMeasured(state);
      panel.draw(state);
      panel.ask(state);
    }
    showControls();
    keepAddress(toHash(state));
  };
  const moved = (place, what, part) => {
    const to = lattice.nearest(place, what);
    if (to) change(part(to));
  };
  const on = {
    start: (place) => moved(place, "start", (to) => ({ start: [...to, ...state.start.slice(2)] })),
    goal: (place) => moved(place, "goal", (to) => ({ goal: to })),
    heading: (degrees) => change({ start: [...state.start.slice(0, 2), snapHeading(degrees, world.turn)] }),
    drawn: (panel) => panel.draw(state),
    fail,
  };
  const panels = world.runs.map((about, run) => new Panel(run, about, world, lattice, on));
  element("panels").classList.toggle("two", panels.length === 2);
  element("panels").append(...panels.map((panel) => panel.node));
  element("title").textContent = world.title;
  document.title = `${world.title}: ${world.runs.map((run) => run.name).join(" and ")}`;
  element("about").textContent = world.about;
  element("horizon").max = Math.min(...world.runs.map((run) => run.max_horizon));
  element("heading-control").hidden = !world.turn;
  element("again-control").hidden = !world.chance;
  if (world.turn) Object.assign(element("heading"), { step: world.turn, max: 360 - world.turn });

  function showControls() {
    const [h, alpha] = [element("horizon"), element("alpha")];
    [h.value, alpha.value] = [state.h, state.alpha];
    h.setAttribute("aria-valuetext", steps(state.h));
    element("horizon-value").textContent = state.h;
    element("alpha-value").textContent = told(state.alpha);
    element("alpha-control").hidden = state.by !== "alpha";
    if (world.turn) {
      element("heading").value = state.start[2];
      element("heading-value").textContent = `${state.start[2]}°`;
    }
    for (const name of ["by", "colours"]) document.querySelector(`input[name=${name}][value=${state[name]}]`).checked = true;
    element("outline").checked = state.outline;
  }

  element("horizon").addEventListener("input", (event) => change({ h: Number(event.target.value) }));
  element("alpha").addEventListener("input", (event) => change({ alpha: Number(event.target.value) }));
  element("heading").addEventListener("input", (event) => on.heading(Number(event.target.value)));
  element("outline").addEventListener("change", (event) => change({ outline: event.target.checked }));
  for (const input of document.querySelectorAll("input[type=radio]")) {
    input.addEventListener("change", () => change({ [input.name]: input.value }));
  }
  element("again").addEventListener("click", () => change({ seed: state.seed + 1 }));
  element("reset").addEventListener("click", () => change(firstState(world)));
  element("measure").addEventListener("click", async (event) => {
    event.target.disabled = true;
    await Promise.all(panels.map((panel) => panel.measure(state))).catch(fail);
    event.target.disabled = false;
  });
  copyLink(element("link"), () => toHash(state));
  window.addEventListener("hashchange", () => change(fromHash(location.hash, world, lattice)));
  change({});
}

main().catch(fail);
