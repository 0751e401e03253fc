"""A page on this machine where a person sees what an agent has learned: `clearning explore RUN [RUN2]`.

world   what the page must know of a map: its points, walls, texts
views   one agent's answers as arrays: heat maps, paths, success, and the truth beside them
server  the page and its requests
page/   the page itself: plain HTML, CSS and JavaScript modules
"""
