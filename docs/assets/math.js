// Formulas: what the Markdown extension marked, set by KaTeX.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    const source = text.replace(/^\\[([]/, "").replace(/\\[)\]]$/, "");
    katex.render(source, element, {
      displayMode: text.startsWith("\\["),
      throwOnError: false,
    });
  }
});
