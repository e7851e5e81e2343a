import { options, type VNode } from 'preact'

/**
 * Lets browsers translate the page. Translators replace text nodes with <font> elements, but Preact keeps changing the text nodes.
 * This puts changed texts back, where the translator finds them, and removes the translations of removed ones.
 */

const translations = new WeakMap<Node, ChildNode>()

const observer = new MutationObserver((records) => {
  for (const { type, target, addedNodes, removedNodes, previousSibling } of records) {
    if (type === 'characterData') translations.get(target)?.replaceWith(target)
    const translation = [addedNodes[0], previousSibling].find((node) => node?.nodeName === 'FONT')
    for (const text of removedNodes) {
      if (!(text instanceof Text && translation instanceof HTMLElement)) continue
      translations.set(text, translation)
      observer.observe(text, { characterData: true })
    }
  }
})
observer.observe(document.body, { childList: true, subtree: true })

const { unmount } = options
options.unmount = (vnode: VNode & { __e?: Node }) => {
  unmount?.(vnode)
  // `__e` is the node. Preact has no public name for it.
  if (vnode.__e) translations.get(vnode.__e)?.remove()
}
