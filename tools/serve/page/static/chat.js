// The page: chats at the side, messages, and what streams in.
"use strict";

const $ = (id) => document.getElementById(id);
let running = null; // {controller, chat} while an answer streams in

const numbers = ["temperature", "top_p", "top_k", "seed", "max_tokens"];
const ideas = ["What is the capital of France?", "Write a haiku about bonsai trees", "Who are you?"];

function headers() {
  return settings.key ? { Authorization: "Bearer " + settings.key } : {};
}

// showMessage makes the elements of a message, and returns how to update them.
function showMessage(message) {
  if (message.role === "user") {
    const e = element("article", { class: "user" }, element("div", { class: "body" }, message.content));
    return { element: e };
  }
  const thought = element("div");
  const details = element("details", { class: "thought" }, element("summary", {}, "Thought"), thought);
  const body = element("div", { class: "body" });
  const button = element("button", { class: "plain", type: "button", onclick: () => copy(message.content, button) }, "Copy");
  const foot = element("span");
  const e = element("article", { class: "assistant" }, details, body, element("div", { class: "foot" }, button, foot));
  const update = (streaming) => {
    details.hidden = !message.reasoning;
    details.open = streaming && !message.content;
    thought.textContent = message.reasoning ?? "";
    body.replaceChildren(...markup(message.content));
    if (message.error) body.append(element("p", { class: "error" }, message.error));
    body.classList.toggle("waiting", streaming && body.children.length === 0);
    button.hidden = streaming || !message.content;
    foot.textContent = message.foot ?? "";
  };
  update(false);
  return { element: e, update };
}

function showChat() {
  const chat = chats.now;
  $("title").textContent = chat.title;
  document.title = chat.title === "New chat" ? "Tern" : chat.title + " · Tern";
  const list = chat.messages.map((m) => showMessage(m).element);
  if (list.length === 0) {
    const buttons = ideas.map((text) => element("button", { type: "button", onclick: () => ask(text) }, text));
    list.push(element("div", { class: "empty" }, element("img", { src: "/page/icon.svg", width: 56, height: 56, alt: "" }),
      element("h2", {}, "What would you like to know?"), "The model runs on this server; nothing is sent anywhere else.", element("div", { class: "ideas" }, ...buttons)));
  }
  $("messages").replaceChildren(...list);
  $("messages").scrollTop = $("messages").scrollHeight;
  showList();
}

function showList() {
  $("chats").replaceChildren(...chats.list.map((chat) => {
    const name = element("button", { class: "plain name", type: "button", onclick: () => go(chat) }, chat.title);
    const remove = element("button", { class: "plain remove", type: "button", title: "Delete", "aria-label": "Delete " + chat.title,
      onclick: () => { if (running?.chat === chat) stop(); chats.remove(chat); showChat(); } }, "×");
    return element("div", chat === chats.now ? { class: "now" } : {}, name, remove);
  }));
}

function go(chat) {
  stop();
  chats.now = chat;
  chats.save();
  document.body.classList.remove("open");
  showChat();
  $("input").focus();
}

function stop() {
  running?.controller.abort();
}

function setRunning(value) {
  running = value;
  $("send").textContent = running ? "Stop" : "Send";
  $("send").classList.toggle("stop", running !== null);
  $("send").title = running ? "Stop the answer" : "Send";
}

// body is the request for the next answer.
function body(chat) {
  const messages = chat.messages.filter((m) => !m.error || m.content).map(({ role, content }) => ({ role, content }));
  if (settings.system) messages.unshift({ role: "system", content: settings.system });
  const request = { messages, stream: true, stream_options: { include_usage: true } };
  for (const name of numbers) if (settings[name] !== undefined) request[name] = settings[name];
  if (settings.think) request.chat_template_kwargs = { enable_thinking: settings.think === "on" };
  return JSON.stringify(request);
}

// events yields the JSON of server-sent events.
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const data = block.replace(/^data: /, "");
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

function speedText(timings, usage) {
  const parts = [];
  if (usage) parts.push(`${usage.completion_tokens} tokens`);
  if (timings?.predicted_per_second) parts.push(`${timings.predicted_per_second.toFixed(1)} t/s`);
  if (timings?.prompt_ms) parts.push(`first after ${((timings.queue_ms + timings.prompt_ms) / 1000).toFixed(2)} s`);
  if (timings?.cache_n) parts.push(`${timings.cache_n} of the prompt reused`);
  return parts.join(" · ");
}

async function ask(question) {
  if (running) return;
  const chat = chats.now;
  if (chat.messages.length === 0) chat.title = question.length > 48 ? question.slice(0, 47) + "…" : question;
  chat.messages.push({ role: "user", content: question });
  const request = body(chat);
  const message = { role: "assistant", content: "" };
  chat.messages.push(message);
  chats.touch(chat);
  showChat();
  const view = showMessage(message);
  $("messages").lastElementChild.replaceWith(view.element);
  view.update(true);

  const controller = new AbortController();
  setRunning({ controller, chat });
  const began = performance.now();
  let tokens = 0, timings, usage, drawn = false;
  const draw = () => {
    drawn = false;
    const box = $("messages");
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
    view.update(running?.controller === controller);
    if (atEnd) box.scrollTop = box.scrollHeight;
    if (running?.controller === controller && tokens > 1) {
      $("status").textContent = `${tokens} tokens, ${(tokens / (performance.now() - began) * 1000).toFixed(1)} t/s`;
    }
  };
  try {
    const response = await fetch("/v1/chat/completions", { method: "POST", headers: { "Content-Type": "application/json", ...headers() }, body: request, signal: controller.signal });
    if (!response.ok) throw new Error((await response.json().catch(() => null))?.error?.message ?? response.statusText);
    for await (const event of events(response.body)) {
      if (event.error) throw new Error(event.error.message);
      const choice = event.choices?.[0];
      if (choice?.delta.content || choice?.delta.reasoning_content) {
        message.content += choice.delta.content ?? "";
        if (choice.delta.reasoning_content) message.reasoning = (message.reasoning ?? "") + choice.delta.reasoning_content;
        tokens++;
      }
      if (choice?.finish_reason === "length") message.error = "The answer was cut: the limit or the context is reached.";
      timings = event.timings ?? timings;
      usage = event.usage ?? usage;
      if (!drawn) {
        drawn = true;
        requestAnimationFrame(draw);
      }
    }
    message.foot = speedText(timings, usage);
  } catch (error) {
    if (controller.signal.aborted) message.foot = "stopped after " + tokens + " tokens";
    else message.error = error instanceof TypeError ? "The server cannot be reached." : error.message;
  }
  if (running?.controller === controller) setRunning(null);
  $("status").textContent = "";
  draw();
  if (chats.list.includes(chat)) chats.save();
}

// grow fits the input to its text.
function grow() {
  const e = $("input");
  e.style.height = "auto";
  e.style.height = e.scrollHeight + 2 + "px";
}

function submit(event) {
  event?.preventDefault();
  if (running) return stop();
  const text = $("input").value.trim();
  if (text === "") return;
  $("input").value = "";
  grow();
  ask(text);
}

function showTheme() {
  const dark = settings.theme ? settings.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
}

async function showModel() {
  try {
    const response = await fetch("/props", { headers: headers() });
    if (!response.ok) throw new Error((await response.json()).error.message);
    const p = await response.json();
    const size = p.parameters >= 1e9 ? (p.parameters / 1e9).toFixed(1) + " B" : (p.parameters / 1e6).toFixed(1) + " M";
    $("model").textContent = `${p.description || p.model} · ${size} · ${p.quantisation}`;
    $("device").textContent = (p.device || "loading…") + (p.device && !p.loaded ? " (unloaded)" : "");
    $("device").title = `${p.context} positions of context, Tern ${p.version}`;
    if (!p.loaded && !p.device) setTimeout(showModel, 1000);
  } catch (error) {
    $("model").textContent = "";
    $("device").textContent = error.message;
  }
}

function openSettings() {
  $("system").value = settings.system ?? "";
  $("think").value = settings.think ?? "";
  $("key").value = settings.key ?? "";
  for (const name of numbers) $(name).value = settings[name] ?? "";
  $("settings").showModal();
}

function saveSettings() {
  settings.system = $("system").value.trim() || undefined;
  settings.think = $("think").value || undefined;
  settings.key = $("key").value.trim() || undefined;
  for (const name of numbers) settings[name] = $(name).value === "" ? undefined : Number($(name).value);
  store.write("settings", settings);
  showModel();
}

function forget() {
  if (!confirm("Delete all chats of this browser?")) return;
  stop();
  chats.list = [];
  chats.begin();
  chats.save();
  showChat();
}

chats.now = chats.list.find((c) => c.id === store.read("now")) ?? chats.begin();
$("ask").addEventListener("submit", submit);
$("input").addEventListener("input", grow);
$("input").addEventListener("keydown", (e) => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) submit(e); });
$("new").addEventListener("click", () => go(chats.begin()));
$("menu").addEventListener("click", () => document.body.classList.toggle("open"));
$("messages").addEventListener("click", () => document.body.classList.remove("open"));
$("adjust").addEventListener("click", openSettings);
$("settings").addEventListener("close", saveSettings);
$("forget").addEventListener("click", forget);
$("theme").addEventListener("click", () => {
  settings.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  store.write("settings", settings);
  showTheme();
});
document.addEventListener("keydown", (e) => { if (e.key === "Escape" && !$("settings").open) stop(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
showTheme();
showChat();
showModel();
