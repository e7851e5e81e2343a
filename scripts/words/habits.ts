/** Turns of phrase that make a text hard to read. Each has a name, better words, and a pattern. */

/** Two spaces or more separate columns. One space in a pattern matches line breaks too. */
const TABLE = String.raw`
  What           a noun                       (?<=(?:^|[.:;|]|\n\s*[-*\n])\s*)(?:What|Who|Whom|Whose|Whoever)(?= [a-z][^.|:?]*(?:[.|:]|$))
  of what        a noun; someone              (?:for|to|of|by|from|with|than) (?:who|what)|whoever|whosever|of which|of whom|somebody
  is no          is not a                     (?<!\bthere )(?:(?:is|are|was|were) no(?! (?:longer|more|fewer|less|better|different|one)\b)|(?:is|are|was|were|has|have|had) (?:none|nobody))
  alone          only; except                (?<!\bleaves? .{0,30})alone|(?:nothing|none|nobody|all|anything|every \w+) but
  at once        immediately; together        at once
  meanwhile      in the meantime              meanwhile|by then|by now
  from then on   takes effect; after that     from (?:then|there|now|here) on|from the (?:[\w-]+ ){1,2}on(?=\s*(?:[,.;:|)]|$))|afterwards
  go on          continue                     (?:go|goes|went|gone|going) on
  another one    new; different; previous    another one|be another|other way round|of (?:before|today|tomorrow)|the one before|former
  those of       its own; the noun           (?:those|that) of|of (?:its|their|his|her|our|your|my) own
  void           invalid; expired             void|voids|dead(?! (?:letter|tuple|row|process|lock))|lapsed?|lapses|in force
  good for       valid until; has expired    good (?:for|again)|(?:is|are|was|were|still) good|(?:is|are|was|were) over|(?:holds?|held) (?:from|until)
  also if        even if                      also (?:if|when|after|before|while|without)
  beside         with; in addition to         besides?
  use up         use; consume; reach          us(?:e|es|ed|ing) up|spends?|spent
  ask for        require; request             ask(?:s|ed|ing)? (?:for|of)|asker|wants
  answer         return; response             answer(?:s|ed|ing)?
  tells          shows; returns; issues      tells|told|gives(?! (?:up|feedback))
  a mail         email                       e-mail\w*|(?<!-)(?:mailed|mails)|(?:a|the|its|this|that|each|every|one|no|by|of|their|your) mail(?! (?:server|program|client|queue))
  proof          re-authentication            proofs?(?! of possession)|proven?|proves?
  since          because                      (?<=, )since(?! \d)
  in place of    instead of                   in (?:the |its )?places? of|(?<=, )and not
  as ever        again; on its own            as ever|anew|by (?:itself|themselves)|so long
  server         service account              servers? of (?:the|a|your|its) compan\w+|service members?
  1 000          1,000                        (?<![\d.,]|\d )\d{1,3} \d{3}(?! \d{3})
  British        American spelling            \w*(?:recogni|authori|organi|optimi|minimi|normali|initiali|seriali|canoni)s(?:e|ed|es|ing|ation)|\w*cancell(?:ed|ing)|behaviours?|colou?red|colours?|favour\w*|licence|grey|enrolments?|catalogue|judgement
  long           at most 30 words a sentence  (?:(?![^\s|]*[.!?:;][)"”*]*\s)[^\s|]+(?:[^\S\n]|[^\S\n]*\n(?!\s*(?:[-*#|\d]|\n))[^\S\n]*)){30,}[^\s|]+
`
const ROWS = TABLE.trim().split('\n')
const HABITS = ROWS.map((row) => {
  const [name = '', use = '', source = ''] = row.trim().split(/ {2,}/)
  // Words that begin a sentence have a capital.
  const flags = name === 'What' ? 'g' : 'gi'
  return { name, use, pattern: new RegExp(`\\b(?:${source.replaceAll(' ', '\\s+')})\\b`, flags) }
})

export const countWords = (text: string) => text.match(/\p{L}[\p{L}\d’'-]*/gu)?.length ?? 0

/** The habits of a text, each with better words and its line, from 1. */
export const findHabits = (text: string) =>
  HABITS.flatMap(({ name, use, pattern }) =>
    Array.from(text.matchAll(pattern), ({ 0: found, index }) => {
      const line = text.slice(0, index).split('\n').length
      return { name, use, found: found.replace(/\s+/g, ' '), line }
    }),
  )
