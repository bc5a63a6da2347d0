// The page as an app of the browser or the phone. Its manifest is made here, because it holds the address with the token, as a bookmark of it would.
import { bookmark } from "./connection";
import { icon } from "./shapes";

/** Lets the browser install the page; `name` is that of what it shows. */
export function offerAsApp(name: string): void {
  if (document.querySelector('link[rel="manifest"]')) return;
  const start = bookmark();
  if (!start) return;
  const scope = `${location.origin}/`;
  const icons = [{ src: icon("running"), sizes: "any", type: "image/svg+xml" }];
  const manifest = { name: `hankweave · ${name}`, short_name: name, id: scope, scope, start_url: start, display: "standalone", icons };
  const link = document.createElement("link");
  link.rel = "manifest";
  link.href = `data:application/manifest+json,${encodeURIComponent(JSON.stringify(manifest))}`;
  document.head.append(link);
}
