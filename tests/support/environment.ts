/** What processes that tests start take over from the tests' own. */

const { PATH, NODE_COMPILE_CACHE } = process.env
export const INHERITED = { PATH, NODE_COMPILE_CACHE }
