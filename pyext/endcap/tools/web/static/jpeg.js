// JPEGs of what is on a canvas.

import { Problem } from "./problem.js";

// In the page itself Chromium leaves this work to idle moments, and it takes seconds at times.
const worker = new Worker("jpeg_worker.js");

// canvas: anything that createImageBitmap takes. quality: 0 to 1. Returns a Blob.
export async function toJpeg(canvas, quality) {
  const bitmap = await createImageBitmap(canvas);
  const { port1, port2 } = new MessageChannel();
  const result = await new Promise((resolve) => {
    port1.onmessage = ({ data }) => resolve(data);
    worker.onerror = () => resolve({ error: "Reload this page, then try again." });
    worker.postMessage({ bitmap, quality }, [bitmap, port2]);
  });
  port1.close();
  if (!result.blob) throw new Problem("The browser cannot make a JPEG of this", result.error);
  return result.blob;
}
