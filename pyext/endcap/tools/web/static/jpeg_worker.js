// A worker that makes JPEGs of bitmaps; see jpeg.js.

self.addEventListener("message", async ({ data: { bitmap, quality }, ports: [reply] }) => {
  try {
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    bitmap.close();
    reply.postMessage({ blob: await canvas.convertToBlob({ type: "image/jpeg", quality }) });
  } catch (error) {
    reply.postMessage({ error: error.message });
  }
});
