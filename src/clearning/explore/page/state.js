// What a person chose, and its form in the address: everything that a link must bring back.

export const STEERING = ["alpha", "horizon"];
export const COLOURS = ["learned", "true", "difference"];

export function firstState(world) {
  const horizon = Math.min(...world.runs.map((run) => run.max_horizon));
  return {
    start: [...world.start],
    goal: [...world.goal],
    h: Math.max(1, Math.round(0.3 * horizon)), // where most maps are neither all sure nor all hopeless
    alpha: world.runs[0].alpha,
    by: "alpha",
    colours: "learned",
    outline: false,
    seed: 0,
  };
}

export function toHash(state) {
  const parts = new URLSearchParams({ ...state, start: state.start.join(), goal: state.goal.join() });
  parts.set("outline", state.outline ? "1" : "0");
  return `#${parts.toString().replaceAll("%2C", ",")}`;
}

// A link may be old or edited by hand: whatever does not fit is left as it was at first.
export function fromHash(hash, world, lattice) {
  const state = firstState(world);
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const numbers = (name) => (given.get(name) ?? "").split(",").map((text) => (text.trim() === "" ? NaN : Number(text)));
  const start = numbers("start");
  if (start.length === state.start.length && start.every(Number.isFinite)) {
    const place = lattice.nearest(start, "start");
    if (place) state.start = place;
    if (world.turn) state.start[2] = snapHeading(start[2], world.turn);
  }
  const goal = numbers("goal");
  if (goal.length === 2 && goal.every(Number.isFinite)) state.goal = lattice.nearest(goal, "goal") ?? state.goal;
  const most = Math.min(...world.runs.map((run) => run.max_horizon));
  const [h] = numbers("h");
  if (Number.isFinite(h)) state.h = Math.min(most, Math.max(1, Math.round(h)));
  const [alpha] = numbers("alpha");
  if (alpha > 0 && alpha <= 1) state.alpha = alpha;
  const [seed] = numbers("seed");
  if (Number.isInteger(seed) && seed >= 0 && seed < 2 ** 31) state.seed = seed;
  if (STEERING.includes(given.get("by"))) state.by = given.get("by");
  if (COLOURS.includes(given.get("colours"))) state.colours = given.get("colours");
  state.outline = given.get("outline") === "1";
  return state;
}

export function snapHeading(degrees, turn) {
  const turned = Math.round(degrees / turn) * turn;
  return ((turned % 360) + 360) % 360;
}

// The points of the map that can be asked about, numbered as the server's arrays are.
export class Lattice {
  constructor({ low, step, columns, rows, kind }) {
    Object.assign(this, { low, step, columns, rows, kind });
    let count = 0;
    this.number = Int32Array.from(kind, (k) => (k === "0" ? -1 : count++)); // point -> place in an array
  }

  // As `number`, with points at the edge of a wall taking a neighbour's: walls are drawn over them exactly.
  bordered() {
    const { columns, rows, number } = this;
    return number.map((own, i) => {
      if (own >= 0) return own;
      const [column, row] = [Math.floor(i / rows), i % rows];
      for (const [c, r] of [[-1, 0], [1, 0], [0, -1], [0, 1], [-1, -1], [-1, 1], [1, -1], [1, 1]]) {
        const [near, beside] = [column + c, row + r];
        if (this.allows(near, beside, "goal")) return number[near * rows + beside];
      }
      return -1;
    });
  }

  at(column, row) {
    return [this.low[0] + column * this.step, this.low[1] + row * this.step];
  }

  place([x, y]) {
    return [Math.round((x - this.low[0]) / this.step), Math.round((y - this.low[1]) / this.step)];
  }

  allows(column, row, what) {
    if (column < 0 || row < 0 || column >= this.columns || row >= this.rows) return false;
    const kind = this.kind[column * this.rows + row];
    return kind === "1" || (kind === "2" && what === "goal");
  }

  // The allowed point next to a place on the map, or null where it lies deep in a wall.
  nearest(place, what) {
    const [column, row] = this.place(place);
    let best = null;
    let least = Infinity;
    for (let c = column - 2; c <= column + 2; c++) {
      for (let r = row - 2; r <= row + 2; r++) {
        const [x, y] = this.at(c, r);
        const far = Math.hypot(x - place[0], y - place[1]);
        if (this.allows(c, r, what) && far < least) [best, least] = [[x, y], far];
      }
    }
    return best;
  }

  // One move along an axis; over a wall to the other side if it is thin.
  move(place, [dx, dy], what) {
    const [column, row] = this.place(place);
    for (let far = 1; far <= 16; far++) {
      const [c, r] = [column + dx * far, row + dy * far];
      if (this.allows(c, r, what)) return this.at(c, r);
    }
    return place;
  }

  indexOf(place) {
    const [column, row] = this.place(place);
    return this.allows(column, row, "goal") ? this.number[column * this.rows + row] : -1;
  }
}
