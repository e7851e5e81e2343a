/** What all tests, and the processes that they start, have in common. */

/** What such processes take over. */
const { PATH, NODE_COMPILE_CACHE } = process.env
export const INHERITED = { PATH, NODE_COMPILE_CACHE }

export const PASSWORD = 'correct horse battery'
/** For those who change theirs. */
export const NEW_PASSWORD = 'a chosen password'
