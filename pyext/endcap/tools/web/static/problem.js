// What a person can do something about; its message is shown on the page.

export class Problem extends Error {
  constructor(title, message = "") {
    super(message);
    this.title = title;
  }
}

export function asSentence(text) {
  const trimmed = text.trim();
  const capital = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}
