// Recorded episodes, moment by moment. Curves and pictures of an episode are fetched once; sliding only draws.

import { ask, Latest } from "./api.js";
import { drawChart, drawCourse, percent, steps } from "./chart.js";
import { addressKeeper, copyLink } from "./link.js";

const PACE = 350; // milliseconds that a moment is shown while playing
const element = (id) => document.getElementById(id);

class Film {
  constructor(run, about, on) {
    Object.assign(this, { run, about, on, pictures: [] });
    this.node = element("panel").content.cloneNode(true).firstElementChild;
    const seed = about.preset === null ? "" : ` (${about.preset}, seed ${about.seed})`;
    this.node.querySelector("h2").textContent = `${about.name}${seed}`;
    for (const name of ["readout", "over-h", "course", "blank"]) this[name] = this.node.querySelector(`.${name}`);
    this.canvas = this.node.querySelector("canvas");
    this.screen = this.canvas.getContext("2d");
    const blind = about.without_pictures !== "";
    this.canvas.hidden = blind;
    this.blank.hidden = !blind;
    this.blank.textContent = `No pictures: ${about.without_pictures}`;
    this.asked = new Latest((found, { episode }) => { this.found = found; this.foundOf = episode; on.drawn(this); }, on.fail);
  }

  last(episode) {
    return this.about.episodes[episode].steps;
  }

  ask({ episode, alpha }) {
    this.asked.ask("moments", { run: this.run, episode, alpha });
    if (this.episode === episode || this.about.without_pictures) return;
    this.episode = episode;
    this.pictures = Array.from({ length: this.last(episode) + 1 }, (_, moment) => {
      const picture = new Image();
      picture.onload = () => this.on.drawn(this);
      picture.src = `/api/picture?run=${this.run}&episode=${episode}&moment=${moment}`;
      return picture;
    });
  }

  draw(state) {
    const moment = Math.min(state.moment, this.last(state.episode));
    const picture = this.pictures[moment];
    if (picture?.complete && picture.naturalWidth) this.screen.drawImage(picture, 0, 0, this.canvas.width, this.canvas.height);
    this.canvas.setAttribute("aria-label", `${this.about.name}: picture after ${steps(moment)}`);
    if (!this.found || this.foundOf !== state.episode) return;
    const { curves, horizons, reached } = this.found;
    const [curve, chosen] = [curves[moment], horizons[moment]];
    drawChart(this["over-h"], { curve, h: Math.min(state.h, curve.length), chosen, steered: "caution picks" });
    drawCourse(this.course, { horizons, reached, moment });
    this.readout.textContent = this.told(state, moment, curve, chosen, reached);
  }

  told({ episode, h, alpha }, moment, curve, chosen, reached) {
    const last = this.last(episode);
    if (moment === last) return reached ? `The goal is reached, after ${steps(last)}.` : `The episode ended after ${steps(last)}, and the goal is not reached.`;
    const rest = reached ? `It arrived ${steps(last - moment)} later` : "It did not arrive";
    return `After ${steps(moment)}: ${percent(curve[h - 1])} within ${steps(h)} more. Caution ${alpha} takes ${steps(chosen)} to be enough, with ${percent(curve[chosen - 1])}. ${rest}.`;
  }
}

function firstState(world) {
  const horizon = Math.min(...world.runs.map((run) => run.max_horizon));
  return { episode: 0, moment: 0, h: Math.max(1, Math.round(0.1 * horizon)), alpha: world.runs[0].alpha };
}

// A link may be old or edited by hand: whatever does not fit is left as it was at first.
function fromHash(hash, world) {
  const [state, given] = [firstState(world), new URLSearchParams(hash.replace(/^#/, ""))];
  const number = (name) => Number(given.get(name) || NaN);
  const fits = (value, least, most) => Number.isInteger(value) && value >= least && value <= most;
  if (fits(number("episode"), 0, world.runs[0].episodes.length - 1)) state.episode = number("episode");
  if (fits(number("moment"), 0, longest(world, state.episode))) state.moment = number("moment");
  if (fits(number("h"), 1, Math.min(...world.runs.map((run) => run.max_horizon)))) state.h = number("h");
  if (number("alpha") > 0 && number("alpha") <= 1) state.alpha = number("alpha");
  return state;
}

function longest(world, episode) {
  return Math.max(...world.runs.map((run) => run.episodes[episode].steps));
}

function fail(error) {
  element("message").textContent = error.message;
  element("message").hidden = false;
}

async function main() {
  const world = await ask("world");
  let state = fromHash(location.hash, world);
  const keepAddress = addressKeeper();
  const toHash = () => `#${new URLSearchParams(state)}`;
  const films = world.runs.map((about, run) => new Film(run, about, { drawn: (film) => film.draw(state), fail }));

  const change = (part) => {
    state = { ...state, ...part };
    element("message").hidden = true;
    for (const film of films) {
      film.draw(state);
      film.ask(state);
    }
    showControls();
    keepAddress(toHash());
  };

  function showControls() {
    const [moment, last] = [element("moment"), longest(world, state.episode)];
    moment.max = last;
    for (const name of ["moment", "horizon", "alpha"]) element(name).value = state[name === "horizon" ? "h" : name];
    element("episode").value = state.episode;
    element("moment-value").textContent = `${state.moment} of ${last}`;
    moment.setAttribute("aria-valuetext", `after ${steps(state.moment)} of ${last}`);
    element("horizon-value").textContent = state.h;
    element("alpha-value").textContent = Math.round(100 * state.alpha) / 100;
  }

  element("panels").classList.toggle("two", films.length === 2);
  element("panels").append(...films.map((film) => film.node));
  element("title").textContent = world.title;
  document.title = `${world.title}: ${world.runs.map((run) => run.name).join(" and ")}`;
  element("horizon").max = Math.min(...world.runs.map((run) => run.max_horizon));
  element("episode").append(...world.runs[0].episodes.map((_, i) => {
    const ends = world.runs.map((run) => `${run.episodes[i].reached ? "arrives" : "does not arrive"} in ${steps(run.episodes[i].steps)}`);
    return new Option(`${i + 1}: ${ends.join("; ")}`, i);
  }));

  let playing = null;
  const stop = () => {
    clearInterval(playing);
    playing = null;
    element("play").textContent = "Play";
  };
  element("play").addEventListener("click", () => {
    if (playing) return stop();
    const last = longest(world, state.episode);
    if (state.moment >= last) change({ moment: 0 });
    element("play").textContent = "Pause";
    playing = setInterval(() => (state.moment < last ? change({ moment: state.moment + 1 }) : stop()), PACE);
    return undefined;
  });
  element("moment").addEventListener("input", (event) => { stop(); change({ moment: Number(event.target.value) }); });
  element("episode").addEventListener("change", (event) => { stop(); change({ episode: Number(event.target.value), moment: 0 }); });
  element("horizon").addEventListener("input", (event) => change({ h: Number(event.target.value) }));
  element("alpha").addEventListener("input", (event) => change({ alpha: Number(event.target.value) }));
  element("reset").addEventListener("click", () => { stop(); change(firstState(world)); });
  copyLink(element("link"), toHash);
  window.addEventListener("hashchange", () => change(fromHash(location.hash, world)));
  change({});
}

main().catch(fail);
