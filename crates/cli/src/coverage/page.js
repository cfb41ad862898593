// A click on a line lights what it was compiled to, or from, in the other pane.
document.addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-to]");
  if (!row) return;
  document.querySelectorAll("tr.lit").forEach((lit) => lit.classList.remove("lit"));
  row.classList.add("lit");
  let first = true;
  for (const id of row.dataset.to.split(" ")) {
    const other = document.getElementById(id);
    if (!other) continue;
    other.classList.add("lit");
    if (first) other.scrollIntoView({ block: "center", behavior: "smooth" });
    first = false;
  }
});
