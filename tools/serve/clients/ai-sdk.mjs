// The npm packages ai and @ai-sdk/openai-compatible against a server with Sprig.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { answer, assert, base, check, forecast, idle, question, weather } from "./common.mjs";

const provider = createOpenAICompatible({ name: "tern", baseURL: base + "/v1", supportsStructuredOutputs: true, includeUsage: true });
const model = provider("sprig");
const maxRetries = 0;

await check("generateText", async () => {
  const r = await generateText({ model, prompt: question, maxRetries });
  assert.equal(r.text, answer);
  assert.equal(r.finishReason, "stop");
  assert.ok(r.usage.outputTokens > 5);
});

await check("streamText", async () => {
  const r = streamText({ model, prompt: question, maxRetries });
  let text = "";
  for await (const piece of r.textStream) text += piece;
  assert.equal(text, answer);
  assert.ok((await r.usage).inputTokens > 5);
});

await check("thinking", async () => {
  const r = await generateText({ model, prompt: "What is 38 + 57?", maxRetries, providerOptions: { tern: { reasoningEffort: "low" } } });
  assert.equal(r.text, "38 + 57 = 95.");
  assert.match(r.reasoningText, /^Tens: 30/);
});

const getWeather = tool({ description: weather.description, inputSchema: z.object({ city: z.string() }), execute: async () => JSON.parse(forecast) });

await check("tools in several steps", async () => {
  const r = await generateText({ model, prompt: "What is the weather in Lima?", maxRetries, tools: { get_weather: getWeather }, stopWhen: stepCountIs(3) });
  assert.equal(r.steps[0].toolCalls[0].input.city, "Lima");
  assert.equal(r.steps.length, 2);
});

await check("tools, streamed", async () => {
  const r = streamText({ model, prompt: "What is the weather in Lima?", maxRetries, tools: { get_weather: getWeather }, toolChoice: "required" });
  let pieces = 0;
  for await (const part of r.fullStream) if (part.type === "tool-input-delta") pieces++;
  assert.deepEqual((await r.toolCalls)[0].input, { city: "Lima" });
  assert.ok(pieces > 2, `${pieces} pieces`);
});

await check("structured output", async () => {
  const schema = z.object({ country: z.string(), capital: z.string(), continent: z.enum(["Asia", "South America"]) });
  const r = await generateText({ model, prompt: "Describe Peru as JSON.", maxRetries, output: Output.object({ schema }) });
  assert.deepEqual(r.output, { country: "Peru", capital: "Lima", continent: "South America" });
});

await check("embedMany", async () => {
  const r = await embedMany({ model: provider.embeddingModel("sprig"), values: ["a", "b"], maxRetries });
  assert.equal(r.embeddings.length, 2);
});

await check("abort", async () => {
  const controller = new AbortController();
  const r = streamText({ model, prompt: question, maxRetries, temperature: 3, maxOutputTokens: 400, abortSignal: controller.signal });
  let aborted = false;
  for await (const part of r.fullStream) {
    if (part.type === "text-delta") controller.abort();
    aborted ||= part.type === "abort";
  }
  assert.ok(aborted);
  await idle();
});

await check("errors", async () => {
  await assert.rejects(generateText({ model: provider("gpt-4"), prompt: "x", maxRetries }), (e) => e.statusCode === 404 && /gpt-4/.test(e.message));
});
