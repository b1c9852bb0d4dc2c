// The interactive figure of idea.md: jump distance against R, for LBP and the random walk.
(() => {
  const box = document.getElementById("scaling");
  const canvas = box.querySelector("canvas");
  const draw2d = canvas.getContext("2d");
  const slider = (name) => box.querySelector(`input[name=${name}]`);

  // The normal distribution function (Abramowitz and Stegun 7.1.26).
  function phi(x) {
    const t = 1 / (1 + 0.3275911 * Math.abs(x) / Math.SQRT2);
    const tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t
      + 0.254829592) * t * Math.exp(-x * x / 2);
    return x < 0 ? tail / 2 : 1 - tail / 2;
  }

  const samplers = [
    { name: "LBP", color: "#3b5bdb", spread: (r, n, rough) => rough * Math.pow(r, 1.5) / n },
    { name: "random walk", color: "#e8590c", spread: (r, n, rough) => rough * Math.sqrt(r) },
  ];
  const acceptance = (s, r, n, rough) => 2 * phi(-s.spread(r, n, rough) / 2);

  function best(s, n, rough) {
    let found = { r: 1, jump: 0 };
    for (let i = 0; i <= 600; i++) {
      const r = Math.pow(n / 2, i / 600);
      const jump = r * acceptance(s, r, n, rough);
      if (jump > found.jump) found = { r, jump };
    }
    return found;
  }

  function draw() {
    const n = Math.round(Math.pow(10, +slider("sites").value));
    const rough = +slider("rough").value;
    const r = Math.pow(n / 2, +slider("flips").value);
    const shown = [n.toLocaleString(), r < 10 ? r.toFixed(1) : Math.round(r).toLocaleString(),
      rough.toFixed(2)];
    box.querySelectorAll("label output").forEach((o, i) => { o.textContent = shown[i]; });

    const style = getComputedStyle(document.body);
    const ink = style.getPropertyValue("--md-default-fg-color") || style.color;
    const w = canvas.clientWidth || 760, h = 360, sharp = window.devicePixelRatio || 1;
    const [left, bottom, top] = [60, 44, 36];
    canvas.width = w * sharp; canvas.height = h * sharp;
    draw2d.scale(sharp, sharp);
    const most = Math.log10(n / 2);
    const peak = Math.log10(best(samplers[0], n, rough).jump) + 0.3;
    const floor = -1;
    const px = (value) => left + (w - left - 12) * Math.log10(value) / most;
    const py = (value) => top + (h - top - bottom)
      * (1 - (Math.max(floor, Math.log10(value)) - floor) / (peak - floor));
    draw2d.clearRect(0, 0, w, h);
    draw2d.font = "15px sans-serif";
    draw2d.fillStyle = draw2d.strokeStyle = ink;
    draw2d.lineWidth = 1;
    draw2d.beginPath();
    draw2d.moveTo(left, top); draw2d.lineTo(left, h - bottom); draw2d.lineTo(w - 12, h - bottom);
    draw2d.stroke();
    for (let e = 0; e <= most; e++) draw2d.fillText(`${Math.pow(10, e)}`, px(Math.pow(10, e)) - 6, h - bottom + 18);
    for (let e = floor; e <= peak; e++) draw2d.fillText(`${Math.pow(10, e)}`, 10, py(Math.pow(10, e)) + 5);
    draw2d.fillText("R", w - 30, h - 6);
    draw2d.fillText("jump distance, bits a step", 10, 16);

    const words = [];
    samplers.forEach((s, k) => {
      draw2d.strokeStyle = draw2d.fillStyle = s.color;
      draw2d.lineWidth = 2.5;
      draw2d.beginPath();
      for (let i = 0; i <= 400; i++) {
        const value = Math.pow(n / 2, i / 400);
        const y = py(value * acceptance(s, value, n, rough));
        if (i) draw2d.lineTo(px(value), y); else draw2d.moveTo(px(value), y);
      }
      draw2d.stroke();
      const now = r * acceptance(s, r, n, rough), found = best(s, n, rough);
      draw2d.beginPath(); draw2d.arc(px(r), py(now), 6, 0, 7); draw2d.fill();
      draw2d.setLineDash([4, 4]); draw2d.lineWidth = 1;
      draw2d.beginPath(); draw2d.moveTo(px(found.r), py(found.jump)); draw2d.lineTo(px(found.r), h - bottom);
      draw2d.stroke(); draw2d.setLineDash([]);
      draw2d.fillText(s.name, left + 14, top + 12 + 20 * k);
      words.push(`${s.name}: accepts ${(100 * acceptance(s, r, n, rough)).toFixed(1)}% here and moves `
        + `${now < 10 ? now.toPrecision(2) : Math.round(now)} bits a step; best at R = `
        + `${found.r < 10 ? found.r.toFixed(1) : Math.round(found.r)}, where it accepts `
        + `${(100 * acceptance(s, found.r, n, rough)).toFixed(1)}% and moves `
        + `${found.jump < 10 ? found.jump.toPrecision(2) : Math.round(found.jump)}.`);
    });
    box.querySelector("output[name=words]").innerHTML = words.join("<br>");
  }

  box.addEventListener("input", draw);
  window.addEventListener("resize", draw);
  new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
  draw();
})();
