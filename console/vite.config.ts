// Builds the console into the Python package, from which the server serves it.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "../src/headstream/server/http/console/bundle",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false, // its polyfill is a script inside the page, which the policy refuses
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    sourcemap: false,
  },
});
