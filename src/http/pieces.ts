const MANY = 1_000

/**
 * A text that is put together of many small pieces. They are joined by the thousand: all of them at once would live so long
 * that collecting them takes longer than everything else.
 */
export class Pieces {
  length = 0
  readonly #joined: string[] = []
  #pieces: string[] = []

  push(piece: string): void {
    this.length += piece.length
    if (this.#pieces.push(piece) === MANY) this.#join()
  }

  #join(): void {
    this.#joined.push(this.#pieces.join(''))
    this.#pieces = []
  }

  toString(): string {
    this.#join()
    return this.#joined.join('')
  }
}
