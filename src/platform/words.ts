/** Separated by single spaces. What operators have stored in other forms in the tables of roles is left out. */
export function toWords(names: string[]): string {
  return names.filter((name) => /^[!-~]+$/.test(name)).join(' ')
}
