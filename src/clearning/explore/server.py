"""The page and its requests. All of them only read, and each is answered by numbers or by one sentence."""

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearning.errors import ClearningError, UsageError
from clearning.explore.episodes import EpisodeView, describe_episodes
from clearning.explore.views import View
from clearning.explore.world import describe_world

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
ROLLOUTS = 1000
AT_ONCE = 4  # answers under way: more would only slow each other down and fill the memory
MOST_ROLLOUTS = 10_000
HEADERS = {
    # Nothing from elsewhere is loaded, nothing inline is run, and no other site may show or read the page.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


Views = Sequence[View] | Sequence[EpisodeView]
Answer = Callable[[Request], Awaitable[Response]]
V = TypeVar("V", View, EpisodeView)


def build_app(views: Views, names: Iterable[str] = ()) -> Starlette:
    """The application; `names` are hosts, besides this machine's own, by which it may be asked for."""
    maps = [v for v in views if isinstance(v, View)]
    answers = _map_answers(maps) if maps else _episode_answers([v for v in views if not isinstance(v, View)])
    pages = StaticFiles(packages=[("clearning.explore", "page")], html=True)

    async def first_page(request: Request) -> Response:
        return await pages.get_response("index.html" if maps else "episodes.html", request.scope)

    return Starlette(
        routes=[
            *(Route(f"/api/{name}", endpoint) for name, endpoint in answers.items()),
            Route("/", first_page),
            Mount("/", pages),
        ],
        middleware=[Middleware(_Guard, names={*LOCAL_NAMES, *(n.lower() for n in names)})],
        exception_handlers={UsageError: _refused, HTTPException: _no_such_page, Exception: _failed},
    )


def _map_answers(views: Sequence[View]) -> dict[str, Answer]:
    """The requests of index.html."""
    searching, compute = anyio.Lock(), _computer()
    world = describe_world(views[0].env) | {"runs": [v.describe() for v in views]}

    async def heat(request: Request) -> Response:
        asked = _asked(request, ("run", "start"))
        view, start = _view(views, asked), _numbers(asked, "start")
        return _array(await compute(view.heat, start))

    async def truth(request: Request) -> Response:
        asked = _asked(request, ("run", "start"))
        view, start = _view(views, asked), _numbers(asked, "start")
        async with searching:  # one at a time: each may take seconds
            if await request.is_disconnected():  # the start was moved on while this one waited
                return Response(status_code=204)
            return _array(await compute(view.truth, start))

    async def paths(request: Request) -> Response:
        asked = _asked(request, ("run", "start", "goal", "alpha", "horizon", "seed"))
        pair = _numbers(asked, "start"), _numbers(asked, "goal")
        found = await compute(_view(views, asked).paths, *pair, *_dial(asked), _seed(asked))
        return JSONResponse(found)

    async def success(request: Request) -> Response:
        asked = _asked(request, ("run", "start", "goal", "alpha", "horizon", "seed", "rollouts"))
        pair = _numbers(asked, "start"), _numbers(asked, "goal")
        rollouts = _whole(asked, "rollouts", 1, MOST_ROLLOUTS, ROLLOUTS)
        view = _view(views, asked)
        found = await compute(view.success, *pair, *_dial(asked), rollouts, _seed(asked))
        return JSONResponse(found)

    return {"world": _about(world), "heat": heat, "truth": truth, "paths": paths, "success": success}


def _episode_answers(views: Sequence[EpisodeView]) -> dict[str, Answer]:
    """The requests of episodes.html."""
    world, compute = describe_episodes(views), _computer()

    def which(asked: dict[str, str]) -> tuple[EpisodeView, int]:
        view = _view(views, asked)
        return view, _whole(asked, "episode", 0, len(view.films) - 1, 0)

    async def moments(request: Request) -> Response:
        asked = _asked(request, ("run", "episode", "alpha"))
        view, episode = which(asked)
        return JSONResponse(await compute(view.moments, episode, _alpha(asked)))

    async def picture(request: Request) -> Response:
        asked = _asked(request, ("run", "episode", "moment"))
        view, episode = which(asked)
        shown = view.picture(episode, _whole(asked, "moment", 0, 10**6, 0))
        return Response(shown, media_type="image/jpeg")

    return {"world": _about(world), "moments": moments, "picture": picture}


def _computer() -> Callable[..., Awaitable[Any]]:
    """Calls functions in threads, a few at a time; the others wait their turn."""
    limiter = anyio.CapacityLimiter(AT_ONCE)
    return lambda function, *given: anyio.to_thread.run_sync(function, *given, limiter=limiter)


def _about(world: dict[str, Any]) -> Answer:
    async def about(request: Request) -> Response:
        _asked(request, ())
        return JSONResponse(world)

    return about


def serve(
    views: Views,
    host: str,
    port: int,
    names: Iterable[str] = (),
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until Ctrl-C; `ready` is told the address once it answers there."""
    listening = _listen(host, port)
    with listening:
        for view in views:
            view.warm_up()
        app = build_app(views, {*names, host})
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listening.getsockname()[1]}/")
        settings = uvicorn.Config(app, log_level="warning", ws="none", lifespan="off", server_header=False)
        try:
            uvicorn.Server(settings).run(sockets=[listening])
        except KeyboardInterrupt:
            return  # how a person ends it


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise UsageError(f"--port must be in 0..65535, not {port}; 0 takes any that is free.")
    listening = None
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()  # who comes before the server is ready waits, and is not turned away
    except OSError as error:
        if listening:
            listening.close()
        raise ClearningError(
            f"Could not listen on {host}, port {port}: {error.strerror}. Choose another with --port."
        ) from error
    return listening


class _Guard:
    """Refuses requests for other hosts and adds the headers that keep other sites out.

    A page elsewhere could give its own name the address of this machine; its requests carry that name.
    """

    def __init__(self, app: ASGIApp, names: set[str]):
        self.app, self.names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        app = self.app if self._is_known(scope) else _sentence("This host name is not served here.", 421)
        await app(scope, receive, send_guarded)

    def _is_known(self, scope: Scope) -> bool:
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(given) != 1:
            return False
        try:
            parts = urlsplit(f"//{given[0]}")
            name, _ = parts.hostname or "", parts.port  # a port that is none raises
        except ValueError:
            return False
        return parts.netloc == given[0] and "@" not in given[0] and _plain(name) in self.names


def _plain(name: str) -> str:
    """An address in its shortest form; a name as it is."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _sentence(text: str, status: int) -> JSONResponse:
    return JSONResponse({"error": text}, status)


async def _refused(request: Request, error: Exception) -> Response:
    return _sentence(str(error), 400)


async def _no_such_page(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    texts = {404: "There is nothing at this address.", 405: "This address can only be read (GET)."}
    return _sentence(texts.get(status, "This request cannot be answered."), status)


async def _failed(request: Request, error: Exception) -> Response:
    return _sentence("Something went wrong here; the terminal says what.", 500)


def _array(values: np.ndarray) -> Response:
    """Bytes as they are: (H, goals), horizon by horizon."""
    shape = {"x-shape": ",".join(map(str, values.shape))}
    return Response(values.tobytes(), media_type="application/octet-stream", headers=shape)


def _asked(request: Request, known: Sequence[str]) -> dict[str, str]:
    """The parameters of a request, each known and given once."""
    given = request.query_params.multi_items()
    for name, _ in given:
        if name not in known:
            may = f"those here are {', '.join(known)}" if known else "there are none here"
            raise UsageError(f"There is no parameter '{name[:40]}': {may}.")
    if len(dict(given)) < len(given):
        raise UsageError("A parameter is given twice: give each once.")
    return dict(given)


def _view(views: Sequence[V], asked: dict[str, str]) -> V:
    return views[_whole(asked, "run", 0, len(views) - 1, 0)]


def _numbers(asked: dict[str, str], name: str) -> list[float]:
    text = asked.get(name, "")
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{name} takes numbers separated by commas, as in {name}=1,0.") from None


def _alpha(asked: dict[str, str]) -> float:
    alpha = _numbers(asked, "alpha")
    if len(alpha) != 1:
        raise UsageError("alpha is one number, as in alpha=0.9.")
    return alpha[0]


def _dial(asked: dict[str, str]) -> tuple[float | None, int | None]:
    horizon = _whole(asked, "horizon", 1, 10**6, 1) if "horizon" in asked else None
    return _alpha(asked) if "alpha" in asked else None, horizon


def _seed(asked: dict[str, str]) -> int:
    return _whole(asked, "seed", 0, 2**31 - 1, 0)


def _whole(asked: dict[str, str], name: str, least: int, most: int, otherwise: int) -> int:
    text = asked.get(name)
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
        raise UsageError(f"{name} must be a whole number in {least}..{most}.")
    return int(text)
