"""A page on this machine where a person sees what an agent has learned: `clearning explore RUN [RUN2]`.

world     what the page must know of a map: its points, walls, texts
views     one agent's answers as arrays: heat maps, paths, success, and the truth beside them
episodes  where there is no map: what the agent expects along episodes that it played
server    the pages and their requests
page/     the pages themselves: plain HTML, CSS and JavaScript modules
"""
