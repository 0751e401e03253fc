// The button that copies the address of exactly this view.

export function copyLink(button, hash) {
  button.addEventListener("click", async () => {
    const link = new URL(hash(), location.href).href;
    history.replaceState(null, "", link);
    const copied = await navigator.clipboard?.writeText(link).then(() => true, () => false);
    button.textContent = copied ? "Copied" : "It is in the address bar";
    setTimeout(() => { button.textContent = "Copy link"; }, 1500);
  });
}

// Keeps the address up to date; browsers refuse one that changes too often.
export function addressKeeper() {
  let written;
  return (hash) => {
    clearTimeout(written);
    written = setTimeout(() => history.replaceState(null, "", hash), 200);
  };
}
