// Requests. A refusal comes as one sentence, which is thrown as it is.

export async function ask(name, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(parameters).toString().replaceAll("%2C", ",");
  let response;
  try {
    response = await fetch(`/api/${name}${query ? `?${query}` : ""}`, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer: is `clearning explore` still running?");
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new Error(told.error ?? "The server could not answer.");
  }
  if (response.headers.get("content-type") === "application/octet-stream") {
    const [horizons, goals] = response.headers.get("x-shape").split(",").map(Number);
    return { horizons, goals, values: new Uint8Array(await response.arrayBuffer()) };
  }
  return response.json();
}

// Of many questions in a row only the one under way and the newest are asked: a drag never piles up work.
export class Latest {
  constructor(use, fail) {
    Object.assign(this, { use, fail, busy: false, next: null, last: "" });
  }

  ask(name, parameters) {
    const key = JSON.stringify([name, parameters]);
    if (key === this.last) return;
    this.last = key;
    this.next = { name, parameters, key };
    if (!this.busy) this.run();
  }

  async run() {
    this.busy = true;
    while (this.next) {
      const { name, parameters, key } = this.next;
      this.next = null;
      try {
        this.use(await ask(name, parameters), parameters);
      } catch (error) {
        if (this.last === key) this.last = ""; // so that it can be asked again
        this.fail(error);
      }
    }
    this.busy = false;
  }
}
