// The page's texts in the reader's language: ?lang= in the address, the last choice, the command's --lang, the browser's.

import en from "./en.json";
import zh from "./zh.json";

const TEXTS = { en, zh };
const STORED = "bridgehead-language";

const meta = document.querySelector('meta[name="bridgehead-language"]');
export let language =
  localStorage.getItem(STORED) ||
  (meta && TEXTS[meta.content] ? meta.content : "") ||
  (navigator.language.startsWith("zh") ? "zh" : "en");
if (!TEXTS[language]) language = "en";
document.documentElement.lang = language === "zh" ? "zh-CN" : "en";

export function chooseLanguage(next) {
  localStorage.setItem(STORED, next);
  language = next;
  document.documentElement.lang = next === "zh" ? "zh-CN" : "en";
}

export function t(key, values) {
  const text = TEXTS[language][key] ?? en[key] ?? key;
  return values ? text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? "")) : text;
}

export function age(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return t("second.one", { n: s });
  if (s < 7200) return t("minute.one", { n: Math.floor(s / 60) });
  if (s < 172800) return t("hour.one", { n: Math.floor(s / 3600) });
  return t("day.one", { n: Math.floor(s / 86400) });
}

export const number = (value, digits = 1) =>
  value === null || value === undefined
    ? "–"
    : value >= 100 || Number.isInteger(value)
      ? Math.round(value).toLocaleString(language)
      : value.toFixed(digits);

// A latency or another span, in seconds.
export const span = (seconds) =>
  seconds === null || seconds === undefined
    ? "–"
    : seconds < 1
      ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`
      : `${seconds.toFixed(1)} s`;
