/** The only variables that started processes inherit. */
const { PATH, NODE_COMPILE_CACHE } = process.env
export const INHERITED = { PATH, NODE_COMPILE_CACHE }

export const PASSWORD = 'correct horse battery'
/** The password of users who change theirs. */
export const NEW_PASSWORD = 'a chosen password'
