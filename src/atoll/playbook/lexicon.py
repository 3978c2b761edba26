"""Which English words say the same in a playbook, which say the contrary, and which say next to nothing.

General words of rules and advice, collected once and by hand; what is missing here costs a duplicate that is kept
twice, never one that is merged wrongly. A word that could mean two things is left out.
"""

# concept = words and phrases that stand for it; a minus says that the concept is denied.
CONCEPTS = """
-go = avoid, avoiding, stay away from, keep away from, steer clear of, stay clear of, keep clear of, stay out of, keep out of, keep off, stay off, shun, evade, dodge, keep your distance from, keep a distance from, keep distance from, refrain from, abstain from, stay far from, keep far from
go = go, enter, walk, step, move, proceed, head, travel, tread, walk into, step on, step onto, step into, go into, go near, walk on, go through, pass through, walk through, go to, walk to, head to, travel to, move to, proceed to, set foot on, set foot in, venture
-safe = dangerous, unsafe, hazardous, risky, perilous, a hazard, a danger, a risk
safe = safe, harmless, free of danger, secure
neg = not, never, no, cannot, none, neither, nor, without, under no circumstances, at no time, by no means, in no case, nothing, nobody, lack, lacking, lacks
-succeed = fail, fails, failed, failing, failure
succeed = succeed, success, work out, successful
-allow = forbid, forbidden, prohibit, prohibited, disallow, ban, banned
allow = allow, permit, allowed, permitted, let
-possible = impossible
possible = possible, feasible
-correct = wrong, incorrect, false, mistaken, erroneous, inaccurate
correct = right answer, correct, accurate, true
-valid = invalid
valid = valid
-necessary = unnecessary, needless
necessary = necessary, required, mandatory, compulsory, obligatory, essential
-complete = incomplete, unfinished
complete = complete, completed, finish, finished, done
-know = unknown, unfamiliar
know = know, known, familiar
-visit = unvisited, unexplored
visit = visit, visited, explored
-use = useless, unused
-reliable = unreliable
reliable = reliable, trustworthy, dependable
-equal = unequal, differ from, different from
equal = equal, equals, same as, identical to
-trust = distrust, mistrust
trust = trust, rely on, depend on, count on
-agree = disagree
agree = agree
eat = eat, consume, feed on, eating
drink = drink, sip, drinking
food = food, meal, meals, nourishment, provisions, something to eat
water = water
hungry = hungry, hunger, starving, starve
thirsty = thirsty, thirst, dehydrated
fear = fear, afraid of, scared of, frightened of, frightened by, scared by
stay = stay, remain
handle = handle, treat, deal with
other = other, another, any other
tired = tired, exhausted, fatigued, weary, worn out
rest = rest, sleep, asleep, take a break, take a rest, nap, resting
health = health, life, hit points, hp, life points, hitpoints, health points, vitality
energy = energy, stamina
damage = damage, injury, injuries, hurt, harm, harms, hurts, injure, injures, wound, wounds, damages
poison = poison, poisonous, toxic, venomous
deadly = deadly, lethal, fatal, kills you, mortal
kill = kill, slay
die = die, death, perish, dies, dead
enemy = enemy, enemies, foe, monster, hostile, adversary, hostiles, attacker, opponent
attack = attack, fight, strike, assault
flee = flee, run away, escape, retreat, get away, back off, withdraw
shelter = shelter, refuge, cover, hideout
hide = hide, conceal
fire = fire, flame, flames, blaze
lava = lava, magma
night = night, nighttime, dark, darkness, after dark, nightfall, after sunset, after nightfall
day = day, daytime, daylight
dawn = dawn, sunrise, daybreak
dusk = dusk, sunset, sundown
cell = cell, tile, tiles, square, squares, field, spot
area = area, region, zone
road = road, path, route, way, trail
near = near, close to, next to, beside, adjacent to, nearby, by the side of, in the vicinity of, alongside, around, adjacent, neighbouring, neighboring, close by
far = far, distant, far away
collect = collect, gather, pick up, pick, grab, harvest, take with you
carry = carry, bring, bring along, have with you, take along
search = search, look for, seek, hunt for, search for, try to find
find = find, discover, come across, locate, spot, encounter, meet, detect
see = see, notice, observe, perceive, spotted
return = return, go back, come back, get back, head back, turn back, walk back
leave = leave, exit, get out of, depart, go out of, quit
wait = wait, pause, stand still, stay put, hold on
store = store, save, stash, stockpile, stock up on, preserve, put aside, set aside
tool = tool, instrument, implement
build = build, construct, make, create, craft, produce
explore = explore, scout, investigate, map out, exploration, scouting
unknown_place = uncharted, unmapped
resource = resource, supply, supplies, material, materials, resources
quick = quickly, fast, rapidly, swiftly, speedily, in a hurry, quick, rapid, hastily
immediately = immediately, at once, right away, straight away, instantly, without delay, promptly, without hesitation, straightaway
slow = slowly, slow, unhurriedly
careful = carefully, with care, cautiously, with caution, attentively
check = check, verify, confirm, double check, validate, make sure of, examine, inspect
calculate = calculate, compute, work out the value of, determine, figure out, calculation, computing, computation, evaluate
use = use, apply, utilize, employ, make use of, utilise, using
answer = answer, reply, respond, response
question = question, query
result = result, outcome, output
number = number, figure, value, amount, quantity
money = money, cash
price = price, cost, costs
buy = buy, purchase, acquire
sell = sell
help = help, assist, aid, support
begin = begin, start, commence, starting, launch
end = end, stop, cease, terminate, halt, finish off
change = change, modify, alter, adjust, edit
delete = delete, remove, erase, discard, throw away, get rid of, drop, dispose of, eliminate, strip
add = add, append, insert, put in, mix in, stir in
include = include, contain, comprise
exclude = exclude, leave out, omit
convert = convert, transform, turn into, translate
divide = divide, divided
multiply = multiply, multiplied
subtract = subtract, deduct, take away, minus
round = round, rounded
write = write, note down, write down, record, jot down, log, note
read = read, consult, look up
say = say, tell, state, mention, inform, give, provide
ask = ask, inquire, enquire, request
choose = choose, select, opt for, go for
prefer = prefer, favour, favor
before = before, prior to, ahead of, earlier than
after = after, following, once you have, later than
during = during, while, in the course of
if = if, when, whenever, in case, as soon as, once, every time, each time, provided that, as long as, should you, in the event that, in the event of, any time, anytime, at the moment, the moment, given that, upon, where
unless = unless, except when, except if
until = until, till, up to the point
only = only, solely, exclusively, merely
all = all, every, each, everything, any, everyone
most = most, the majority of, mostly
some = some, several, a few
sometimes = sometimes, occasionally, now and then, at times, from time to time
often = often, frequently
rarely = rarely, seldom, hardly ever
almost = almost, nearly
again = again, once more, anew
together = together, jointly
alone = alone, by yourself, on your own
ge = at least, no less than, not less than, a minimum of, minimum of, no fewer than, or more
le = at most, no more than, not more than, a maximum of, maximum of, up to, not exceed, or less, or fewer
above = above, over, more than, greater than, higher than, exceed, exceeds, larger than, beyond, on top of, bigger than, exceeding, surpasses
below = below, under, less than, lower than, fewer than, smaller than, beneath, underneath, drops below, falls below, falls under, drops under, sinks below, goes below, is down to, is lower than, drop below, fall below
increase = increase, raise, grow, rise, boost, enlarge
decrease = decrease, reduce, lower, shrink, diminish, cut down, lessen, decline
large = large, big, huge, great
small = small, little, tiny
high = high, tall
low = low, short on, scarce, running out, almost gone, runs low, is low, running low, getting low, gets low
long = long, lengthy
short = short, brief
hot = hot, heat
warm = warm
cold = cold, chilly
strong = strong, powerful
weak = weak, feeble
good = good, beneficial, useful, helpful, worthwhile, pays off, advantageous
bad = bad, poor
easy = easy, simple
hard = hard, difficult, tough
full = full
empty = empty
first = first, at first, firstly, to begin with, initially
last = last, finally, lastly, at the end, final
early = early
late = late
north = north, northwards, northward
south = south, southwards, southward
east = east, eastwards, eastward
west = west, westwards, westward
left = left, left hand side, leftwards
up = up, upwards, upward, uphill
down = down, downwards, downward, downhill
inside = inside, indoors, in the interior of
outside = outside, outdoors
open = open
close = shut, close the, closed
on = turn on, switch on, enable, activate, turned on, switched on, enabled
off = turn off, switch off, disable, deactivate, turned off, switched off, disabled
max = maximum, maximise, maximize, highest
min = minimum, minimise, minimize, lowest
best = best, optimal, ideal
percent = percent, percentage, per cent
error = error, bug, mistake, fault, exception
problem = problem, issue, trouble, difficulty
repair = repair, fix, mend
file = file
folder = folder, directory
program = program, script, code, source code
function = function
customer = customer, client
user = user
email = email, mail, e mail
boss = boss, manager, supervisor
meeting = meeting
minute = minute, minutes, min, mins
hour = hour, hours, hr, hrs
second = seconds, secs, sec
attempt = attempt, try, tries
repeat = repeat, redo, retry, do again, try again
follow = follow, obey, stick to, adhere to, comply with
ignore = ignore, disregard, pay no attention to, overlook
wear = wear, put on, dress in
light = torch, lamp, lantern
tree = tree
wood = wood, timber, lumber
stone = stone, rock, stones
child = child, kid, kids, children
animal = animal, beast, creature
boat = boat, ship, vessel
reach = reach, arrive at, get to, arrive
show = show, indicate, signal, mean, means, signify, point to, announce
cause = cause, lead to, result in, bring about, leads to, results in
protect = protect, guard, shield, defend, protection
attract = attract, draw, lure, draw in
prepare = prepare, get ready
share = share
important = priority
split = split, break up, break down, divide up, break into
unit = unit, units
cook = cook
boil = boil
heal = heal, recover, cure, recovery, regain health, restore health
refill = refill, top up, replenish, fill up
group = group, team
limit = limit, cap, restrict
publish = publish, release, deploy, ship it
backup = backup, back up, backups, copy of
"""

# Two ends of one scale: where only that differs, the two texts contradict each other.
OPPOSITES = """
before after, above below, ge le, increase decrease, large small, high low, long short, hot cold, strong weak
good bad, easy hard, full empty, first last, early late, north south, east west, left right, up down, inside outside
open close, on off, max min, add delete, include exclude, multiply divide, buy sell, begin end, quick slow, near far
always never, all some, day night, dawn dusk, ally enemy, wet dry, push pull, gain loss, profit loss, rise fall
income expense, asset liability, numerator denominator, odd even, positive negative, up down, wait go, attack flee
collect delete, warm cold, clockwise counterclockwise, horizontal vertical, together alone, trust ignore, follow ignore
oldest newest, old new, ascending descending, lend borrow, debit credit, best worst, stay leave, more less, male female
hungry thirsty, young old, heavy light, thick thin, rich poor, win lose, send receive, cheap expensive, front back
ally foe, often rarely, sometimes always, return leave, gross net, simple compound, nominal real, row column
"""

# Ends of a scale that say where or when and not what: facts about both can be true at once.
PLACES = "north south east west left right up down day night dawn dusk near far inside outside row column front back"

# Words that may be there or not.
LIGHT = """
a an the this that these those it its is are was were be been being am do does did you your yourself we our us they
their them he she his her i my me one there here also just very really quite so too then thus therefore hence please
always constantly consistently ever must should shall need needs have has had ought will would can could remember sure
certain simply actually basically get gets got go place cell time moment case way manner kind sort which who whom what
and own such become becomes becoming feel feels seem seems look looks exist exists located present want wants itself
"""

# Whole phrases that say nothing, before anything else is read.
EMPTY = """
make sure that you, make sure that, make sure to, make sure you, make sure, be sure to, be certain to, remember to
remember that, do not forget to, never forget to, do not forget that, do not fail to, never fail to, it is important to
it is important that, it is best to, it is better to, it is a good idea to, it is wise to, it pays to, it helps to
need to, needs to, have to, has to, had to, ought to, want to, you should, you must, you need to, you have to, one should, one must, take care to, note that, keep in mind that
keep in mind to, in order to, it is advisable to, it is recommended to, always remember to, see to it that
at all times, first of all, as a rule, in general, try to, you had better, we should, we must, the best thing is to
is a must, be sure that, ensure that you, ensure that, ensure you, please, you ought to, there is a need to
it is necessary to, if at all possible, the agent should, the agent must, it turns out that, we learned that
i learned that, learned that, lesson learned, rule of thumb, be careful to, take the time to, you want to
"""

# What a part of a sentence begins with, and the name under which it is compared.
JOINTS = """
in = in, at, on, during, within, inside of
to = to, into, onto, towards, toward
from = from, out of, off
with = with, using, by means of, via, through, with the help of, by using
for = for
by = by
than = than, instead of, rather than, in preference to
as = as, like
because = because, since, as it, due to, because of, owing to, for the reason that
so = so that, such that
"""

# Words that say something or nothing, as the case may be: both ways of reading are tried.
UNSURE = {"keep": "store", "hav": "store", "have": "store"}

IRREGULAR = """
eaten eat, ate eat, seen see, saw see, found find, gone go, went go, taken take, took take, given give, gave give
made make, kept keep, held hold, sold sell, bought buy, sent send, told tell, said say, written write, wrote write
ran run, fallen fall, fell fall, lost lose, won win, built build, hidden hide, children child, mice mouse, men man
known know, shown show, drawn draw, broken break, chosen choose, driven drive, forgotten forget, frozen freeze
stolen steal, worn wear, drunk drink, met meet, led lead, fed feed, fought fight, caught catch, taught teach
thought think, brought bring, left left, struck strike, begun begin, began begin, used use, feet foot, people person
"""

NUMBERS = {
    "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "thirteen": "13", "fourteen": "14",
    "fifteen": "15", "sixteen": "16", "seventeen": "17", "eighteen": "18", "nineteen": "19", "twenty": "20",
    "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90",
    "hundred": "100", "thousand": "1000", "million": "1000000", "half": "0.5", "dozen": "12", "twice": "2", "double": "2",
    "triple": "3", "thrice": "3", "quarter": "0.25", "once": "1",
}  # fmt: skip
SECONDS = {"second": 1, "minute": 60, "hour": 3600}
