// Text of answers as elements: paragraphs, lists, headings, code. Nothing that a model
// writes becomes markup of its own.
"use strict";

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v);
  }
  e.append(...children);
  return e;
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // where pages may not, as on plain http from afar
    const area = element("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = before), 1200);
}

// inline is code, bold and italic within a line.
function inline(text) {
  const parts = [];
  const pattern = /(`+)(.+?)\1|\*\*(.+?)\*\*|\*([^\s*](?:[^*]*[^\s*])?)\*/g;
  let at = 0;
  for (const m of text.matchAll(pattern)) {
    parts.push(text.slice(at, m.index));
    if (m[2] !== undefined) parts.push(element("code", {}, m[2]));
    else if (m[3] !== undefined) parts.push(element("strong", {}, m[3]));
    else parts.push(element("em", {}, m[4]));
    at = m.index + m[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

function code(text) {
  const button = element("button", { class: "plain", type: "button", onclick: () => copy(text, button) }, "Copy");
  return element("pre", {}, element("code", {}, text), button);
}

// markup turns text into elements.
function markup(text) {
  const out = [];
  const lines = text.split("\n");
  let paragraph = [];
  const flush = () => {
    if (paragraph.length === 0) return;
    const p = element("p");
    paragraph.forEach((line, i) => p.append(...(i ? [element("br")] : []), ...inline(line)));
    out.push(p);
    paragraph = [];
  };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    const fence = line.match(/^\s*(```+|~~~+)/);
    const heading = line.match(/^(#{1,6})\s+(.*)/);
    const item = line.match(/^\s*([-*+]|\d+[.)])\s+(.*)/);
    if (fence) {
      flush();
      const body = [];
      while (++i < lines.length && !lines[i].trimStart().startsWith(fence[1])) body.push(lines[i]);
      out.push(code(body.join("\n")));
    } else if (heading) {
      flush();
      out.push(element("h" + Math.min(6, heading[1].length + 2), {}, ...inline(heading[2])));
    } else if (item) {
      flush();
      const tag = /\d/.test(item[1]) ? "ol" : "ul";
      let list = out.at(-1);
      if (list?.tagName !== tag.toUpperCase()) out.push((list = element(tag, tag === "ol" ? { start: parseInt(item[1]) } : {})));
      list.append(element("li", {}, ...inline(item[2])));
    } else if (line.trim() === "") {
      flush();
    } else {
      paragraph.push(line);
    }
  }
  flush();
  return out;
}
