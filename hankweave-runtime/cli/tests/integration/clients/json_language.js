// Opens a hank as VS Code does, by the schema that it names: prints the messages for it, those for it with a key misspelt, and what is offered for that key.
const fs = require("fs");
const { pathToFileURL } = require("url");
const { getLanguageService, TextDocument } = require("vscode-json-languageservice");

const file = process.argv[2];
const address = pathToFileURL(file).href;
const service = getLanguageService({
  workspaceContext: { resolveRelativePath: (relative, from) => new URL(relative, from).href },
  schemaRequestService: async (schema) => fs.readFileSync(new URL(schema), "utf8"),
});
service.configure({ validate: true, allowComments: false });

const messages = async (document) => {
  const found = await service.doValidation(document, service.parseJSONDocument(document));
  return found.map((one) => one.message);
};

(async () => {
  const text = fs.readFileSync(file, "utf8");
  const document = TextDocument.create(address, "json", 1, text);
  const misspelt = TextDocument.create(address, "json", 2, text.replace('"continuationMode"', '"continuationMod"'));
  const place = document.positionAt(text.indexOf('"continuationMode"'));
  const offered = await service.doComplete(document, place, service.parseJSONDocument(document));
  console.log(JSON.stringify({
    messages: await messages(document),
    misspelt: await messages(misspelt),
    offered: offered.items.map((item) => item.label),
  }));
})();
