// What the scripts share: a server's address from the command line, and checks that
// are counted.
import assert from "node:assert/strict";

export const base = process.argv[2];
if (!base) {
  console.error("usage: node SCRIPT http://127.0.0.1:PORT");
  process.exit(2);
}

export const weather = {
  name: "get_weather",
  description: "Current weather in a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
export const question = "What is the capital of France?";
export const answer = "The capital of France is Paris.";
export const forecast = '{"temperature": 19, "sky": "windy"}';

// An answer that takes long, to be aborted: the grammar never lets it end early.
export const long = { grammar: 'root ::= "a"{400}', max_tokens: 400 };

let passed = 0;

// check runs a step and says which one failed.
export async function check(name, step) {
  try {
    await step();
    passed++;
    console.log("ok", name);
  } catch (error) {
    console.error("FAILED", name, error);
    process.exitCode = 1;
  }
}

// idle waits until the server runs nothing: an abort has reached it.
export async function idle() {
  for (let i = 0; i < 100; i++) {
    const props = await (await fetch(base + "/props")).json();
    if (props.running + props.waiting === 0) return;
    await new Promise((r) => setTimeout(r, 20));
  }
  assert.fail("the server is still busy");
}

export { assert };
process.on("exit", () => console.log(passed, "checks passed"));
