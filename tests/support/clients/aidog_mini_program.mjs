// Sends what AIDog's mini program sends, and reads the answer as that does; run as a program with the server and a PNG.
// It knows nothing of this project. wx.request writes an object as JSON, and reads an answer of that type.

import { readFileSync } from "node:fs";

const [endpoint, png] = process.argv.slice(2);
const image = readFileSync(png).toString("base64").replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
const response = await fetch(endpoint, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ model_name: "default", model_version: 2, data: { image } }),
});
const { prediction } = await response.json();
let [best, place] = [0, 0];
for (let i = 0; i < prediction[0].length; i++) if (prediction[0][i] > best) [best, place] = [prediction[0][i], i];
console.log(JSON.stringify(best > 0.1 ? [place, best] : null)); // null: it says that it cannot tell
