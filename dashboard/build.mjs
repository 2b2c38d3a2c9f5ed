// Builds the page into the package: `scripts/build-dashboard`. The same sources give the same bytes.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] || join(here, "../src/bridgehead/insight/dashboard/static");
mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.jsx" },
  outdir: out,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "inline",
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  logLevel: "warning",
});
await build({
  absWorkingDir: here,
  stdin: { contents: '@import "uplot/dist/uPlot.min.css";\n@import "./src/style.css";', resolveDir: here, loader: "css" },
  outfile: join(out, "app.css"),
  bundle: true,
  minify: true,
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) copyFileSync(join(here, "src", name), join(out, name));

// A test compares this with the sources: a change that was not built is found without npm.
const sources = [...readdirSync(join(here, "src")).map((name) => `src/${name}`), "build.mjs", "package-lock.json", "package.json"].sort();
const hash = createHash("sha256");
for (const name of sources) hash.update(`${name}\0`).update(readFileSync(join(here, name))).update("\0");
for (const name of ["app.css", "app.js", "icon.svg", "index.html"]) hash.update(`${name}\0`).update(readFileSync(join(out, name))).update("\0");
writeFileSync(join(out, "built-from.sha256"), `${hash.digest("hex")}\n`);
