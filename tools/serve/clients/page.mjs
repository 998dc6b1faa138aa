// The chat page in a real browser: ask, stream, copy, stop, reload, a second chat, dark
// mode, settings. usage: node page.mjs URL [FOLDER for screenshots] ($CHROMIUM: the browser)
import puppeteer from "puppeteer-core";
import { answer, assert, base, check, idle, question } from "./common.mjs";

const shots = process.argv[3];
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"],
});
const page = await browser.newPage();
await page.setViewport({ width: 1180, height: 760 });
await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
const problems = [];
page.on("pageerror", (e) => problems.push(String(e)));
page.on("console", (m) => m.type() === "error" && problems.push(m.text()));
page.on("request", (r) => r.url().startsWith(base) || r.url().startsWith("data:") || problems.push("asked " + r.url()));

const shot = async (name) => shots && page.screenshot({ path: `${shots}/${name}.png` });
const text = (selector) => page.$$eval(selector, (list) => list.map((e) => e.innerText));
const send = async (words) => {
  await page.type("#input", words);
  await page.keyboard.press("Enter");
};
const done = () => page.waitForFunction(() => document.getElementById("send").textContent === "Send", { timeout: 60000 });
const click = (selector) => page.$eval(selector, (e) => e.click());

await page.goto(base, { waitUntil: "networkidle0" });
await check("the model and its device are shown", async () => {
  await page.waitForFunction(() => document.getElementById("device").textContent.length > 3 && document.getElementById("model").textContent.includes("Sprig"));
  await shot("empty");
});

await check("ask and stream", async () => {
  await page.evaluate(() => {
    window.seen = new Set();
    new MutationObserver(() => window.seen.add(document.querySelector(".assistant .body")?.innerText)).observe(document.getElementById("messages"), { subtree: true, childList: true, characterData: true });
  });
  await send(question);
  await done();
  assert.deepEqual(await text(".assistant .body"), [answer]);
  assert.ok((await page.evaluate(() => window.seen.size)) > 2, "the answer came at once");
  assert.match((await text(".foot span"))[0], /tokens · .* t\/s/);
});

await check("copy", async () => {
  await browser.defaultBrowserContext().overridePermissions(base, ["clipboard-read", "clipboard-write", "clipboard-sanitized-write"]);
  await click(".assistant .foot button");
  await page.waitForFunction(() => document.querySelector(".assistant .foot button").textContent === "Copied");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), answer);
});

await check("a conversation", async () => {
  await send("Write a haiku about bonsai trees");
  await done();
  assert.match((await text(".assistant .body"))[1], /^Small tree in a bowl,\n/);
  await shot("chat");
});

await check("stop", async () => {
  await click("#adjust");
  await page.$eval("#temperature", (e) => (e.value = "2"));
  await page.$eval("#top_k", (e) => (e.value = "2000"));
  await click("#settings button[value=ok]");
  await send("Tell me a very long story");
  await page.waitForFunction(() => document.querySelectorAll(".assistant")[2]?.querySelector(".body").innerText.length > 3);
  await shot("streaming");
  await click("#send");
  await done();
  assert.match((await text(".foot span"))[2], /stopped after \d+ tokens/);
  await idle();
});

await check("thinking", async () => {
  await click("#adjust");
  await page.$eval("#temperature", (e) => (e.value = ""));
  await page.$eval("#top_k", (e) => (e.value = ""));
  await page.select("#think", "on");
  await shot("settings");
  await click("#settings button[value=ok]");
  await click("#new");
  await send("What is 38 + 57?");
  await done();
  assert.deepEqual(await text(".assistant .body"), ["38 + 57 = 95."]);
  assert.match(await page.$eval("details.thought div", (e) => e.textContent), /^Tens: 30/);
});

await check("reload, and both chats are there", async () => {
  await page.reload({ waitUntil: "networkidle0" });
  assert.deepEqual(await text(".assistant .body"), ["38 + 57 = 95."]);
  assert.deepEqual(await text("#chats .name"), ["What is 38 + 57?", question]);
  await page.$$eval("#chats .name", (list) => list[1].click());
  assert.equal((await text(".assistant .body"))[0], answer);
});

await check("what a model or a user writes is text", async () => {
  const list = await page.evaluate(() => {
    const box = document.createElement("div");
    box.append(...markup("<img src=x onerror=alert(1)> **b** `c<i>`\n\n```js\nlet x = '<b>';\n```\n\n- one\n- two\n\n1. three"));
    return [...box.querySelectorAll("*")].map((e) => e.tagName);
  });
  assert.deepEqual(list, ["P", "STRONG", "CODE", "PRE", "CODE", "BUTTON", "UL", "LI", "LI", "OL", "LI"]);
});

await check("dark mode", async () => {
  await click("#theme");
  assert.equal(await page.$eval("html", (e) => e.dataset.theme), "dark");
  assert.equal(await page.$eval("body", (e) => getComputedStyle(e).backgroundColor), "rgb(21, 25, 26)");
  await shot("dark");
});

await check("a narrow window", async () => {
  await page.setViewport({ width: 390, height: 760 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 390));
  await click("#menu");
  await new Promise((r) => setTimeout(r, 300));
  await shot("narrow");
  await page.setViewport({ width: 1180, height: 760 });
});

await check("delete a chat", async () => {
  await page.$$eval("#chats .remove", (list) => list[0].click());
  assert.equal((await text("#chats .name")).length, 1);
});

await check("no errors, and nothing asked of others", async () => assert.deepEqual(problems, []));
await browser.close();
