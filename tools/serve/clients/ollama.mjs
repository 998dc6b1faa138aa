// The npm package ollama against a server with Sprig.
import { Ollama } from "ollama";
import { answer, assert, base, check, forecast, idle, question, weather } from "./common.mjs";

const client = new Ollama({ host: base });
const model = "sprig";
const messages = [{ role: "user", content: question }];
const tools = [{ type: "function", function: weather }];

await check("version, list, show, ps", async () => {
  assert.ok((await client.version()).version);
  assert.equal((await client.list()).models[0].name, model);
  const show = await client.show({ model });
  assert.equal(show.details.family, "qwen3");
  assert.ok(show.capabilities.includes("tools"));
  assert.equal((await client.ps()).models.length, 1);
});

await check("chat", async () => {
  const r = await client.chat({ model, messages });
  assert.equal(r.message.content, answer);
  assert.ok(r.done && r.eval_count > 5);
});

await check("stream", async () => {
  let text = "", last;
  for await (const part of await client.chat({ model, messages, stream: true })) {
    text += part.message.content;
    last = part;
  }
  assert.equal(text, answer);
  assert.equal(last.done_reason, "stop");
});

await check("generate", async () => {
  assert.equal((await client.generate({ model, prompt: question })).response, answer);
  assert.equal((await client.generate({ model, prompt: "The capital of France is", raw: true, options: { num_predict: 3 } })).response, " Paris.");
});

await check("tools, and their results", async () => {
  const asked = [{ role: "user", content: "What is the weather in Lima?" }];
  const r = await client.chat({ model, messages: asked, tools });
  assert.deepEqual(r.message.tool_calls[0].function, { name: "get_weather", arguments: { city: "Lima" } });
  const second = await client.chat({ model, tools, messages: [...asked, r.message, { role: "tool", tool_name: "get_weather", content: forecast }] });
  assert.match(second.message.content, /19/);
});

await check("format", async () => {
  const text = { type: "string" };
  const format = { type: "object", properties: { country: text, capital: text, continent: text }, required: ["country", "capital", "continent"] };
  const r = await client.chat({ model, messages: [{ role: "user", content: "Describe Peru as JSON." }], format });
  assert.deepEqual(JSON.parse(r.message.content), { country: "Peru", capital: "Lima", continent: "South America" });
});

await check("thinking", async () => {
  const r = await client.chat({ model, messages: [{ role: "user", content: "What is 38 + 57?" }], think: true });
  assert.equal(r.message.content, "38 + 57 = 95.");
  assert.match(r.message.thinking, /^Tens: 30/);
});

await check("embed", async () => {
  assert.equal((await client.embed({ model, input: ["a", "b"] })).embeddings.length, 2);
});

await check("abort", async () => {
  const stream = await client.chat({ model, messages, stream: true, options: { temperature: 3, num_predict: 400 } });
  await assert.rejects(async () => {
    for await (const _ of stream) stream.abort();
  }, { name: "AbortError" });
  await idle();
});

await check("errors", async () => {
  await assert.rejects(client.chat({ model: "llama3", messages }), (e) => e.status_code === 404 && /llama3/.test(e.message));
  await assert.rejects(client.chat({ model, messages: [{ role: "user", content: "x", images: ["aGk="] }] }), /text only/);
});
