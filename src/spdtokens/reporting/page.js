"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // What the reader chose last is remembered where the browser allows it for files.
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  try { const kept = localStorage.getItem("spdtokens-theme"); if (kept) root.dataset.theme = kept; } catch { /* none */ }
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("spdtokens-theme", root.dataset.theme); } catch { /* none */ }
  });

  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v === undefined) return cell.textContent;
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  // What is not known comes last in either order; equals keep their order.
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  };
  for (const table of document.querySelectorAll("table")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
      // High scores first: that is what one looks for in a column of numbers.
      const first = head.classList.contains("n") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      body.append(...[...body.rows].sort((a, b) => compare(value(a, column), value(b, column), sign)));
    }));
  }

  // A box that is cut off on the right says so, until it is scrolled to its end.
  const boxes = document.querySelectorAll(".scroll");
  const mark = (box) => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
  boxes.forEach((box) => box.addEventListener("scroll", () => mark(box)));
  const markAll = () => boxes.forEach(mark);
  addEventListener("resize", markAll);
  markAll();

  // Paper has nothing to click: what is folded is printed open.
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details:not([open])").forEach((one) => { one.open = true; one.dataset.folded = ""; });
  });
  addEventListener("afterprint", () => {
    document.querySelectorAll("details[data-folded]").forEach((one) => { one.open = false; delete one.dataset.folded; });
  });
})();
