/** A mistake that only the person who runs the program can correct. It is printed without a stack trace. */
export class UsageError extends Error {}

/** A response that is not the expected one. `isWrong`: it reports success, but not for what was requested. */
export class Failure extends Error {
  readonly code: string
  readonly isWrong: boolean
  constructor(code: string, isWrong = false) {
    super(code)
    this.code = code
    this.isWrong = isWrong
  }
}

/** @throws Failure that counts as a wrong response */
export function requireCorrect(isCorrect: boolean, fault: string): void {
  if (!isCorrect) throw new Failure(`wrong answer: ${fault}`, true)
}

/** What an error is counted under: the code of a failure or of a network error, or its text. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}
