// The npm package openai against a server with Sprig.
import OpenAI from "openai";
import { answer, assert, base, check, forecast, idle, long, question, weather } from "./common.mjs";

const client = new OpenAI({ baseURL: base + "/v1", apiKey: "none", maxRetries: 0 });
const model = "sprig";
const messages = [{ role: "user", content: question }];
const tools = [{ type: "function", function: weather }];

await check("models", async () => {
  const list = await client.models.list();
  assert.equal(list.data[0].id, model);
  assert.equal((await client.models.retrieve(model)).id, model);
});

await check("chat", async () => {
  const r = await client.chat.completions.create({ model, messages });
  assert.equal(r.choices[0].message.content, answer);
  assert.equal(r.choices[0].finish_reason, "stop");
  assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
});

await check("stream", async () => {
  let text = "", finish, usage;
  const stream = await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    finish ??= chunk.choices[0]?.finish_reason ?? undefined;
    usage ??= chunk.usage ?? undefined;
  }
  assert.equal(text, answer);
  assert.equal(finish, "stop");
  assert.ok(usage.completion_tokens > 5);
});

await check("stream helper", async () => {
  const stream = client.chat.completions.stream({ model, messages });
  assert.equal(await stream.finalContent(), answer);
});

await check("a name told earlier", async () => {
  const r = await client.chat.completions.create({
    model,
    messages: [
      { role: "user", content: "Hi, I am Nora." },
      { role: "assistant", content: "Nice to meet you, Nora." },
      { role: "user", content: "What is my name?" },
    ],
  });
  assert.match(r.choices[0].message.content, /Nora/);
});

await check("tools, and their results", async () => {
  const asked = [{ role: "user", content: "What is the weather in Lima?" }];
  const r = await client.chat.completions.create({ model, messages: asked, tools });
  assert.equal(r.choices[0].finish_reason, "tool_calls");
  const call = r.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, "get_weather");
  assert.deepEqual(JSON.parse(call.function.arguments), { city: "Lima" });
  const second = await client.chat.completions.create({
    model, tools,
    messages: [...asked, r.choices[0].message, { role: "tool", tool_call_id: call.id, content: forecast }],
  });
  assert.match(second.choices[0].message.content, /19/);
});

await check("tools, streamed", async () => {
  const stream = client.chat.completions.stream({ model, tools, messages: [{ role: "user", content: "What is the weather in Lima?" }] });
  let pieces = 0;
  stream.on("tool_calls.function.arguments.delta", () => pieces++);
  const call = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];
  assert.deepEqual(JSON.parse(call.function.arguments), { city: "Lima" });
  assert.ok(pieces > 2, `${pieces} pieces`);
});

await check("runTools", async () => {
  let asked;
  const runner = client.chat.completions.runTools({
    model,
    messages: [{ role: "user", content: "What is the weather in Lima?" }],
    tools: [{ type: "function", function: { ...weather, parse: JSON.parse, function: (args) => { asked = args; return forecast; } } }],
  });
  assert.match(await runner.finalContent(), /19/);
  assert.deepEqual(asked, { city: "Lima" });
});

await check("json_schema", async () => {
  const schema = {
    type: "object",
    properties: { country: { type: "string" }, capital: { type: "string" }, continent: { enum: ["Asia", "South America"] } },
    required: ["country", "capital", "continent"],
    additionalProperties: false,
  };
  const r = await client.chat.completions.parse({
    model,
    messages: [{ role: "user", content: "Describe Peru as JSON." }],
    response_format: { type: "json_schema", json_schema: { name: "country", strict: true, schema } },
  });
  assert.deepEqual(r.choices[0].message.parsed, { country: "Peru", capital: "Lima", continent: "South America" });
});

await check("a schema that cannot be enforced", async () => {
  await assert.rejects(
    client.chat.completions.create({ model, messages, response_format: { type: "json_schema", json_schema: { name: "x", schema: { type: "array", uniqueItems: true } } } }),
    (e) => e instanceof OpenAI.BadRequestError && e.message.includes("uniqueItems") && e.param === "response_format",
  );
});

await check("logprobs", async () => {
  const r = await client.chat.completions.create({ model, messages, logprobs: true, top_logprobs: 2 });
  const list = r.choices[0].logprobs.content;
  assert.equal(list.map((t) => t.token).join(""), answer);
  for (const t of list) {
    assert.equal(t.top_logprobs.length, 2);
    assert.equal(t.top_logprobs[0].logprob, t.logprob);
    assert.ok(t.logprob <= 0 && t.top_logprobs[1].logprob <= t.logprob);
  }
});

await check("stop, n and seed", async () => {
  const r = await client.chat.completions.create({ model, messages, stop: "Paris", n: 2, seed: 7 });
  assert.deepEqual(r.choices.map((c) => c.message.content), ["The capital of France is ", "The capital of France is "]);
});

await check("thinking", async () => {
  const r = await client.chat.completions.create({ model, messages: [{ role: "user", content: "What is 38 + 57?" }], chat_template_kwargs: { enable_thinking: true } });
  assert.equal(r.choices[0].message.content, "38 + 57 = 95.");
  assert.match(r.choices[0].message.reasoning_content, /^Tens: 30/);
});

await check("completions", async () => {
  const r = await client.completions.create({ model, prompt: "The capital of France is", max_tokens: 3 });
  assert.equal(r.choices[0].text, " Paris.");
});

await check("embeddings", async () => {
  const r = await client.embeddings.create({ model, input: ["a", "b"] });
  assert.equal(r.data.length, 2);
  const length = Math.hypot(...r.data[0].embedding);
  assert.ok(Math.abs(length - 1) < 1e-4, `length ${length}`);
});

await check("abort", async () => {
  const stream = await client.chat.completions.create({ model, messages, stream: true, ...long });
  let pieces = 0;
  for await (const _ of stream) if (++pieces === 3) stream.controller.abort();
  await idle();
  const controller = new AbortController();
  const whole = client.chat.completions.create({ model, messages, ...long }, { signal: controller.signal });
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(whole, OpenAI.APIUserAbortError);
  await idle();
});

await check("errors", async () => {
  await assert.rejects(client.chat.completions.create({ model: "gpt-4", messages }), (e) => e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
  await assert.rejects(client.chat.completions.create({ model, messages: [] }), OpenAI.BadRequestError);
  await assert.rejects(
    client.chat.completions.create({ model, messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } }] }] }),
    (e) => e.status === 400 && e.message.includes("text only"),
  );
  await assert.rejects(client.chat.completions.create({ model, messages, temperature: -1 }), (e) => e.status === 400 && e.type === "invalid_request_error");
});
