// What a person can do something about; its message is shown on the page.

export class Problem extends Error {
  // status: of HTTP, where the server of the page gave one.
  constructor(title, message = "", status = undefined) {
    super(message);
    this.title = title;
    this.status = status;
  }
}

export function asSentence(text) {
  const trimmed = text.trim();
  const capital = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}
