import { defineConfig } from "vite";

// Fixed names, because the server embeds the files, and nothing inline, because its policy forbids it.
export default defineConfig({
  build: {
    outDir: "../src/server/page",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: "page[extname]",
        postBanner: "/*! Preact: MIT license, Copyright (c) 2015-present Jason Miller */",
      },
    },
  },
});
